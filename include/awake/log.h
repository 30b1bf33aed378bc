/* SPDX-License-Identifier: MIT
 *
 * awake/log.h: one callback receives every message of the library.
 *
 *     aw_set_log(my_log, my_data); */
#ifndef AWAKE_LOG_H
#define AWAKE_LOG_H

#include <awake/config.h>

AW_C_BEGIN

typedef enum aw_log_level {
    AW_LOG_MISUSE,  /* a bug in the program, which is aborted after the message */
    AW_LOG_PROBLEM, /* a task that can never run again, a deadlock, a cancel that takes too long */
    AW_LOG_INFO     /* no error: a worker cannot be bound to a processor */
} aw_log_level;

/* `message` may have several lines and has no newline at its end. Called from any thread, also
 * under locks of the library: do not call back into it. */
typedef void aw_log_fn(void *data, aw_log_level level, const char *message);

/* Set the callback of the process; NULL restores the default, which writes to stderr. Set it before
 * other threads use the library. A runtime may have its own (see aw_runtime_options). */
AW_API void aw_set_log(aw_log_fn *fn, void *data);

/* Log a message. With AW_LOG_MISUSE this does not return. */
AW_API void aw_log(aw_log_level level, const char *format, ...) AW_PRINTF(2, 3);

AW_C_END

#endif
