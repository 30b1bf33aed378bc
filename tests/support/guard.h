/* SPDX-License-Identifier: MIT
 *
 * Guards memory that was lent and has been returned: it must no longer be used. ASan reports an
 * access by this process at once. A write by the kernel is found when the guard ends. A read by
 * the kernel gets the guard's bytes, which no test expects. */
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
            FAIL("byte %zu of lent memory was changed after it had been returned", i);
}

#endif
