/* SPDX-License-Identifier: MIT
 *
 * Bytes that grow: what is appended may be their own. */
#include <awake/bytes.h>

#include <stdlib.h>
#include <string.h>

#include "test.h"

static void *alloc(void *data, size_t size) {
    (void)data;
    return malloc(size);
}
/* What is given back is worth nothing. */
static void spoil(void *data, void *at, size_t size) {
    (void)data;
    memset(at, '#', size);
    free(at);
}
static const aw_allocator spoiling = {alloc, spoil, NULL};

/* From within, with room and without: what is moved to a larger place goes along. */
TEST(bytes_can_be_appended_to_themselves) {
    aw_set_allocator(&spoiling);
    for (size_t size = 1; size <= 300; size++)
        for (size_t from = 0; from < size; from += 37) {
            aw_bytes b = AW_BYTES_INIT;
            for (size_t i = 0; i < size; i++) {
                char c = (char)i;
                CHECK_EQ(aw_bytes_append(&b, &c, 1), 0);
            }
            CHECK_EQ(aw_bytes_append(&b, b.data + from, size - from), 0);
            CHECK_EQ(b.size, 2 * size - from);
            for (size_t i = 0; i < size; i++)
                CHECK_EQ(b.data[i], (char)i);
            for (size_t i = from; i < size; i++)
                CHECK_EQ(b.data[size + i - from], (char)i);
            aw_bytes_free(&b);
        }
}
