/* SPDX-License-Identifier: MIT
 *
 * Internal side of awake/log.h: bugs of the program end it with a message; and text is built up in a
 * buffer that says how long it would have been. */
#ifndef AW_CORE_MISUSE_H
#define AW_CORE_MISUSE_H

#include <awake/log.h>

void aw__misuse(const char *format, ...) __attribute__((noreturn, cold, format(printf, 1, 2)));

/* Like snprintf, for pieces: `length` grows by what each piece needs, also past the end. */
typedef struct aw__text {
    char *buf;
    size_t size, length;
} aw__text;

void aw__text_add(aw__text *t, const char *format, ...) AW_PRINTF(2, 3);

/* End it properly, without newlines at the end. */
void aw__text_trim(aw__text *t);

/* Through the runtime's log callback, or the process's when it has none or `rt` is NULL. */
struct aw_runtime;
void aw__rt_log(const struct aw_runtime *rt, aw_log_level level, const char *format, ...)
    AW_PRINTF(3, 4);

struct aw_future;
/* The await chain below `f`, a line each, beginning at this depth. */
void aw__text_chain(aw__text *t, const struct aw_future *f, int depth);

#endif
