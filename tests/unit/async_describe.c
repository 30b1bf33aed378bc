/* SPDX-License-Identifier: MIT
 *
 * The await chain of async functions as text: names, lines, what the leaf waits for. */
#include <awake.h>

#include <stdio.h>
#include <string.h>

#include "support/checked_waker.h"
#include "support/script.h"
#include "test.h"

static char text[4096];

static const char *describe(const aw_future *f) {
    CHECK_EQ(aw_future_describe(f, text, sizeof text), (int)strlen(text));
    return text;
}

/* "name at file:line", indented by its depth. */
static const char *line_of(int depth, const char *name, int line) {
    static char expected[256];
    snprintf(expected, sizeof expected, "%*s%s at %s:%d", depth * 2, "", name, __FILE__, line);
    return expected;
}

enum { BOTTOM_LEAF = __LINE__ + 3, BOTTOM_YIELD = __LINE__ + 5 };
AW_ASYNC(int, bottom, struct script *s; struct leaf leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->s));
    ownership_release(self->leaf.out);
    AW_YIELD;
    AW_RETURN(1);
    AW_END;
}
enum { MIDDLE_AWAIT = __LINE__ + 4 };
AW_ASYNC(int, middle, struct script *s; struct bottom f;) {
    AW_BEGIN;
    self->f = AW_CALL(bottom, .s = self->s);
    AW_AWAIT_FUTURE(self->f);
    AW_RETURN(1);
    AW_END;
}
enum { TOP_AWAIT = __LINE__ + 4, TOP_CLEANUP = __LINE__ + 7 };
AW_ASYNC(int, top, struct script *s, *cleanup; aw_box box; struct middle f; struct leaf leaf;) {
    AW_BEGIN;
    AW_YIELD;
    AW_AWAIT(self->f, AW_CALL(middle, .s = self->s));
    AW_RETURN(1);
    AW_FINALLY;
    AW_AWAIT(self->leaf, leaf(self->cleanup));
    ownership_release(self->leaf.out);
    AW_END;
}

TEST(a_chain_names_each_function_and_the_line_where_it_waits) {
    struct script s = {.pends = NEVER}, cleanup = {.pends = 1};
    struct top f = AW_CALL(top, .s = &s, .cleanup = &cleanup);
    CHECK_STR(describe(&f.future), "top, not started\n");

    /* Its own yield: there is no child. */
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_CONTAINS(describe(&f.future), line_of(0, "top", TOP_AWAIT - 1));
    CHECK(strchr(text, '\n') == text + strlen(text) - 1);

    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    describe(&f.future);
    CHECK_CONTAINS(text, line_of(0, "top", TOP_AWAIT));
    CHECK_CONTAINS(text, line_of(1, "middle", MIDDLE_AWAIT));
    CHECK_CONTAINS(text, line_of(2, "bottom", BOTTOM_LEAF));
    CHECK_CONTAINS(text, "\n      leaf\n");
    CHECK(strstr(text, "cancelled") == NULL);

    script_finish(&s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    describe(&f.future);
    CHECK_CONTAINS(text, line_of(2, "bottom", BOTTOM_YIELD));
    CHECK(strstr(text, "leaf") == NULL);

    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    describe(&f.future);
    CHECK_CONTAINS(text, line_of(0, "top", TOP_CLEANUP));
    CHECK_CONTAINS(text, "\n  leaf\n");
    CHECK(strstr(text, "middle") == NULL);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
}

TEST(a_chain_tells_what_is_being_cancelled) {
    struct script s = {.pends = NEVER, .cancel_pends = 1}, cleanup = {.pends = 0};
    struct top f = AW_CALL(top, .s = &s, .cleanup = &cleanup);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    int lines = 0;
    for (const char *p = describe(&f.future); (p = strstr(p, " (being cancelled)\n")); p++)
        lines++;
    CHECK_EQ(lines, 4); /* three functions and the leaf */
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
}

AW_ASYNC(int, boxed, struct script *s; aw_box box;) {
    AW_BEGIN;
    AW_AWAIT(self->box, aw_box_new(AW_CALL(bottom, .s = self->s)));
    AW_RETURN(aw_box_take(struct bottom, &self->box));
    AW_END;
}

TEST(a_chain_goes_through_boxes) {
    struct script s = {.pends = 1};
    struct boxed f = AW_CALL(boxed, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_CONTAINS(describe(&f.future), line_of(2, "bottom", BOTTOM_LEAF));
    script_wake(&s);
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
}

AW_ASYNC(int, deep, int depth; aw_box rest; aw_never never;) {
    AW_BEGIN;
    if (self->depth == 0) AW_AWAIT(self->never, aw_never_ready());
    AW_AWAIT(self->rest, aw_box_new(AW_CALL(deep, .depth = self->depth - 1)));
    AW_RETURN(0);
    AW_END;
}

TEST(a_very_deep_chain_is_cut_and_says_so) {
    struct deep f = AW_CALL(deep, .depth = 300);
    static char large[100000];
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_LT(aw_future_describe(&f.future, large, sizeof large), (int)sizeof large);
    CHECK_CONTAINS(large, "(deeper)");
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
}

TEST(a_small_buffer_gets_the_beginning_and_the_length_of_all) {
    struct script s = {.pends = NEVER};
    struct middle f = AW_CALL(middle, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    int all = aw_future_describe(&f.future, text, sizeof text);
    char little[8];
    memset(little, 'x', sizeof little);
    CHECK_EQ(aw_future_describe(&f.future, little, sizeof little), all);
    CHECK_STR(little, "middle ");
    CHECK_EQ(aw_future_describe(&f.future, NULL, 0), all);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
}
