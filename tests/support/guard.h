/* SPDX-License-Identifier: MIT
 *
 * Memory that was lent, and has been given back: nobody may use it any more. What this process does with it ASan tells
 * at once; what the system writes there is seen when the guard ends; and what it reads is what nobody expects. */
#ifndef AWAKE_TEST_GUARD_H
#define AWAKE_TEST_GUARD_H

#include <string.h>

#include "test.h"

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size)   ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

enum { GUARD = 0xee };

__attribute__((unused)) static void guard(void *at, size_t size) {
    memset(at, GUARD, size);
    ASAN_POISON_MEMORY_REGION(at, size);
}

__attribute__((unused)) static void unguard(const void *at, size_t size) {
    ASAN_UNPOISON_MEMORY_REGION(at, size);
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)at)[i] != GUARD)
            FAIL("byte %zu of what was lent was changed after it had been given back", i);
}

#endif
