/* SPDX-License-Identifier: MIT
 *
 * Growing byte buffers: the appended bytes may be their own. */
#include <awake/bytes.h>

#include <stdlib.h>
#include <string.h>

#include "test.h"

static void *alloc(void *data, size_t size) {
    (void)data;
    return malloc(size);
}
/* Freed memory is overwritten. */
static void overwrite_and_free(void *data, void *at, size_t size) {
    (void)data;
    memset(at, '#', size);
    free(at);
}
static const aw_allocator overwriting = {alloc, overwrite_and_free, NULL};

/* Appends bytes of the buffer itself, with and without free capacity: a reallocation must keep
 * them. */
TEST(bytes_can_be_appended_to_themselves) {
    aw_set_allocator(&overwriting);
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
