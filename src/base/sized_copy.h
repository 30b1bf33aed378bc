/* SPDX-License-Identifier: MIT
 *
 * Structs of the API that begin with their size, so that later versions can add members. */
#ifndef AW_BASE_SIZED_COPY_H
#define AW_BASE_SIZED_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Copies a struct that begins with its size, and may be of an older version than `to`. False: that
 * size is invalid, or larger than `size`. */
static inline bool aw__copy_sized(void *to, size_t size, const void *from) {
    size_t from_size;
    memcpy(&from_size, from, sizeof from_size);
    if (from_size < sizeof from_size || from_size > size) return false;
    memcpy(to, from, from_size);
    return true;
}

#endif
