/* SPDX-License-Identifier: MIT
 *
 * Async functions that are declared in a header and defined in a source file. Callers embed them
 * and see only the header: the source is included at the end of this file. */
#include "support/async_split.h"

#include <stdlib.h>

#include "support/checked_waker.h"
#include "test.h"

#define FINISH(f) CHECK_EQ(drive_poll_to_end(&(f)->future), AW_READY)

TEST(a_declared_function_is_called_by_its_short_name) {
    struct split_add f = split_add(.a = 2, .b = 3);
    FINISH(&f);
    CHECK_EQ(f.out, 5);
    f = AW_CALL(split_add, .b = 3);
    FINISH(&f);
    CHECK_EQ(f.out, 3);
}

AW_ASYNC(long, embeds, int n; struct split_add a; struct split_text b;) {
    AW_BEGIN;
    AW_AWAIT(self->a, split_add(.a = self->n, .b = 1));
    AW_AWAIT(self->b, split_text(.n = self->n));
    CHECK_STR(self->b.out, "20");
    free(self->b.out);
    AW_RETURN(self->a.out);
    AW_END;
}

TEST(callers_embed_the_frame_of_a_declared_function) {
    struct embeds f = AW_CALL(embeds, .n = 10);
    CHECK_GE(sizeof f, sizeof(struct split_add) + sizeof(struct split_text));
    FINISH(&f);
    CHECK_EQ(f.out, 11);
}

TEST(a_declared_function_has_the_discard_of_its_definition) {
    struct split_text f = split_text(.n = 1);
    FINISH(&f);
    aw_future_discard(&f.future); /* otherwise the leak checker reports it */
}

TEST(its_type_names_it_and_the_file_of_its_body) {
    CHECK_STR(aw_type_split_add.name, "split_add");
    CHECK_CONTAINS(aw_type_split_add.file, "support/async_split.c");
    CHECK_EQ(aw_type_split_add.size, sizeof(struct split_add));
}

/* A static definition of a frame that is written as a struct. */
struct increment {
    AW_FRAME(int);
    int n;
};
AW_ASYNC_STATIC(increment) {
    AW_BEGIN;
    AW_YIELD;
    AW_RETURN(self->n + 1);
    AW_END;
}

TEST(a_static_function_may_have_its_struct_written_out) {
    struct increment f = AW_CALL(increment, .n = 4);
    FINISH(&f);
    CHECK_EQ(f.out, 5);
}

#include "support/async_split.c"
