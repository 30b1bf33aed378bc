/* SPDX-License-Identifier: MIT
 *
 * A biased group polls top to bottom, always; a fair one begins with another child each time. And the
 * forms of other interfaces that erased code uses. */
#include <awake.h>

#include <errno.h>
#include <string.h>

#include "test.h"

/* Notes its letter at each poll; ready at the third. */
typedef struct note {
    aw_future future;
    int out;
    char letter;
    int polls;
} note;

static char trace[64];

static aw_poll note_poll(aw_future *self, aw_cx *cx) {
    note *n = (note *)self;
    trace[strlen(trace)] = n->letter;
    if (++n->polls == 3) return AW_READY;
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}

static const aw_future_type note_type = {AW_TYPE_OF(note, "note"), .flags = AW_OUT_ERRNO,
                                         .poll = note_poll};

static note note_of(char letter, int out) {
    return (note){AW_FUTURE_INIT(&note_type), out, letter, 0};
}

static const char *traced(aw_future *f) {
    memset(trace, 0, sizeof trace);
    CHECK_EQ(aw_run_future(f), 0);
    return trace;
}

AW_ASYNC(int, joins, AW_JOIN(note, note) j;) {
    AW_BEGIN;
    AW_AWAIT_JOIN_BIASED(self->j, note_of('a', 1), note_of('b', 2));
    AW_RETURN(self->j.f0.out + self->j.f1.out);
    AW_END;
}

AW_ASYNC(int, fair_joins, AW_JOIN(note, note) j;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->j, note_of('a', 1), note_of('b', 2));
    AW_RETURN(self->j.f0.out + self->j.f1.out);
    AW_END;
}

AW_ASYNC(int, tries, AW_TRY_JOIN(note, note) j;) {
    AW_BEGIN;
    AW_AWAIT_TRY_JOIN_BIASED(self->j, note_of('a', -EIO), note_of('b', -EPERM));
    AW_RETURN(self->j.out);
    AW_END;
}

TEST(a_biased_join_polls_top_to_bottom_each_time) {
    struct joins f = AW_CALL(joins);
    CHECK_STR(traced(&f.future), "ababab");
    CHECK_EQ(f.out, 3);
    struct fair_joins fair = AW_CALL(fair_joins);
    CHECK_STR(traced(&fair.future), "abbaab");
}

TEST(a_biased_try_join_finds_the_first_error_from_the_top) {
    struct tries f = AW_CALL(tries);
    CHECK_STR(traced(&f.future), "ababa");
    CHECK_EQ(f.out, -EIO);
    typedef AW_TRY_JOIN(note, note) pair;
    pair p = AW_TRY_JOIN_BIASED_OF(pair, note_of('a', 0), note_of('b', -EPERM));
    CHECK_STR(traced(&p.future), "ababab");
    CHECK_EQ(p.out, -EPERM);
}

TEST(biased_groups_of_pointers_keep_their_order_too) {
    note a = note_of('a', 0), b = note_of('b', 0);
    aw_group g = aw_join_biased_refs(&a, &b);
    CHECK_STR(traced(&g.future), "ababab");
    a = note_of('a', 0), b = note_of('b', -EIO);
    g = aw_try_join_biased_refs(&a, &b);
    CHECK_STR(traced(&g.future), "ababab");
    CHECK_EQ(g.out, -EIO);
    a = note_of('a', 0), b = note_of('b', 0);
    g = aw_group_of(&aw_join_type, true, 2, (aw_future *[]){&a.future, &b.future});
    CHECK_STR(traced(&g.future), "ababab");
}

AW_ASYNC(int, erased, aw_box box; aw_set set; aw_set_next_future next; note n; aw_yield pause;) {
    AW_BEGIN;
    self->n = note_of('x', 7);
    AW_AWAIT(self->box, aw_box_future(&self->n.future, sizeof self->n));
    CHECK_EQ(aw_box_take(note, &self->box), 7);
    aw_set_init(&self->set, sizeof(note));
    CHECK_EQ(aw_set_push_future(&self->set, &self->n.future, sizeof self->n), 0);
    AW_AWAIT(self->next, aw_set_next(&self->set));
    CHECK_EQ(AW_SET_AS(note, &self->next)->out, 7);
    aw_set_free(&self->set);
    aw_task_detach(aw_spawn(note_of('d', 0)));
    AW_RETURN(0);
    AW_END;
}

TEST(the_erased_forms_of_box_and_set_move_what_they_are_given) {
    ON_THIS_THREAD("nothing runs before block_on");
    memset(trace, 0, sizeof trace);
    CHECK_EQ(aw_run(AW_CALL(erased)), 0);
    CHECK_STR(trace, "xxxxxx");
}

static void count_messages(void *data, aw_log_level level, const char *message) {
    CHECK_EQ(level, AW_LOG_INFO);
    CHECK_STR(message, "seven is 7");
    ++*(int *)data;
}

TEST(a_program_may_use_the_log_as_well) {
    int messages = 0;
    aw_set_log(count_messages, &messages);
    aw_log(AW_LOG_INFO, "seven is %d", 7);
    aw_set_log(NULL, NULL);
    CHECK_EQ(messages, 1);
}
