/* SPDX-License-Identifier: MIT
 *
 * Streams of bytes in which each byte identifies its stream and position. */
#ifndef AWAKE_TEST_PATTERN_H
#define AWAKE_TEST_PATTERN_H

#include "support/tasks.h"

/* The i-th byte of a stream. */
HELPER unsigned char pattern_at(uint32_t stream, uint64_t i) {
    uint64_t x = (stream + 1) * 0x9e3779b97f4a7c15u ^ i * 0xbf58476d1ce4e5b9u;
    return (unsigned char)(x >> 32 ^ x >> 11);
}

HELPER void pattern_fill(uint32_t stream, uint64_t at, unsigned char *to, size_t size) {
    for (size_t i = 0; i < size; i++)
        to[i] = pattern_at(stream, at + i);
}

HELPER void pattern_check(uint32_t stream, uint64_t at, const unsigned char *from, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (from[i] != pattern_at(stream, at + i))
            FAIL("byte %llu of stream %u is %02x and should be %02x", (unsigned long long)(at + i),
                 stream, from[i], pattern_at(stream, at + i));
}

#endif
