/* SPDX-License-Identifier: MIT
 *
 * A text builder that returns the length it would have needed. */
#ifndef AW_BASE_TEXT_H
#define AW_BASE_TEXT_H

#include <stddef.h>

#include <awake/config.h>

/* An snprintf in pieces: `length` grows by what each piece needs, even past the end of the
 * buffer. */
typedef struct aw__text {
    char *buf;
    size_t size, length;
} aw__text;

void aw__text_add(aw__text *t, const char *format, ...) AW_PRINTF(2, 3);

/* Terminates the text, and removes newlines at its end. */
void aw__text_trim(aw__text *t);

#endif
