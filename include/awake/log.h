/* SPDX-License-Identifier: MIT
 *
 * awake/log.h: everything that the library has to say goes through one callback. */
#ifndef AWAKE_LOG_H
#define AWAKE_LOG_H

#include <awake/config.h>

AW_C_BEGIN

typedef enum aw_log_level {
    AW_LOG_MISUSE,  /* a bug in the program: it is aborted after the message */
    AW_LOG_PROBLEM, /* a task that can never run again, a deadlock, a cancel that takes too long */
    AW_LOG_INFO /* nothing is wrong, but you may want to know: a worker that cannot be bound to a processor */
} aw_log_level;

/* `message` may have several lines and ends without a newline. Called from any thread, also under
 * locks of the library: it must not call back into it. */
typedef void aw_log_fn(void *data, aw_log_level level, const char *message);

/* For the whole process; NULL gives back the default, which writes to stderr. Set it before other
 * threads use the library. A runtime may have its own (see aw_runtime_options). */
AW_API void aw_set_log(aw_log_fn *fn, void *data);

/* Say something through it. At AW_LOG_MISUSE this does not return. */
AW_API void aw_log(aw_log_level level, const char *format, ...) AW_PRINTF(2, 3);

AW_C_END

#endif
