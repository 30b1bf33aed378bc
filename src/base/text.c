/* SPDX-License-Identifier: MIT
 *
 * The text builder; see text.h. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void aw__text_add(aw__text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t space = t->length < t->size ? t->size - t->length : 0;
    int n = vsnprintf(space ? t->buf + t->length : NULL, space, format, args);
    if (n > 0) t->length += (size_t)n;
    va_end(args);
}

void aw__text_trim(aw__text *t) {
    size_t end = t->length < t->size ? t->length : t->size - 1;
    while (end && t->buf[end - 1] == '\n')
        end--;
    t->buf[end] = 0;
}
