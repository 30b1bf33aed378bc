/* SPDX-License-Identifier: MIT
 *
 * A biased group always polls from the first child to the last; a fair one begins with another
 * child each time. Also the type-erased forms of box and set. */
#include <awake.h>

#include <errno.h>
#include <string.h>

#include "support/checked_waker.h"
#include "test.h"

/* Appends its letter to `trace` at each poll; ready at the third. */
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
    g = aw_group_of(&aw_join_type, true, (aw_future *[]){&a.future, &b.future}, 2);
    CHECK_STR(traced(&g.future), "ababab");
}

/* ---- Without budget --------------------------------------------------------------------------- */

enum { MESSAGES = 1000 };
typedef AW_CHANNEL(int) numbers;

AW_ASYNC(int, prefers_messages, numbers *c; int i; int n;
         AW_SELECT(aw_channel_future, aw_ready) s;) {
    AW_BEGIN;
    for (self->i = 0; self->i < MESSAGES; self->i++) {
        AW_AWAIT_SELECT_BIASED(self->s, aw_channel_recv(self->c, &self->n), aw_ready_now(0));
        CHECK_EQ(aw_select_winner(&self->s), 0);
        CHECK_EQ(self->n, self->i);
    }
    AW_RETURN(0);
    AW_END;
}

/* Three operations: the budget is used up between them. */
AW_ASYNC(int, takes_three, numbers *c; int i; int n; aw_channel_future r;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 3; self->i++)
        AW_AWAIT(self->r, aw_channel_recv(self->c, &self->n));
    AW_RETURN(self->n);
    AW_END;
}

AW_ASYNC(int, prefers_threes, numbers *c; int i; AW_SELECT(struct takes_three, aw_ready) s;) {
    AW_BEGIN;
    for (self->i = 2; self->i < MESSAGES; self->i += 3) {
        AW_AWAIT_SELECT_BIASED(self->s, AW_CALL(takes_three, .c = self->c), aw_ready_now(0));
        CHECK_EQ(aw_select_winner(&self->s), 0);
        CHECK_EQ(self->s.f0.out, self->i);
    }
    AW_RETURN(0);
    AW_END;
}

static void with_messages(numbers *c) {
    CHECK_EQ(aw_channel_init(c, MESSAGES), 0);
    for (int i = 0; i < MESSAGES; i++)
        CHECK_EQ(aw_channel_try_send(c, &i), 0);
}

TEST(a_biased_select_prefers_its_first_branch_also_when_the_budget_is_used_up) {
    numbers c;
    with_messages(&c);
    CHECK_EQ(aw_run(AW_CALL(prefers_messages, .c = &c)), 0);
    aw_channel_free(&c);
}

TEST(a_branch_that_runs_out_of_budget_does_not_let_a_lower_one_win) {
    numbers c;
    with_messages(&c);
    CHECK_EQ(aw_run(AW_CALL(prefers_threes, .c = &c)), 0);
    aw_channel_free(&c);
}

/* One poll with its own waker and a budget of `budget` operations. */
static aw_poll poll_with_budget(aw_future *f, struct checked_waker *b, uint32_t budget) {
    aw__meter meter = {.budget = budget};
    *b = (struct checked_waker){0, 0, false};
    aw_waker waker = checked_waker_of(b);
    aw_cx cx = {&waker, NULL, &meter};
    return aw_future_poll(f, &cx);
}

TEST(a_select_that_begins_without_budget_polls_no_branch) {
    struct checked_waker b;
    aw_ready r[3] = {aw_ready_now(1), aw_ready_now(2), aw_ready_now(3)};
    aw_group g = aw_select_refs(&r[0], &r[1], &r[2]);
    aw_all all = aw_select_all(r, 3);
    CHECK_EQ(poll_with_budget(&g.future, &b, 0), AW_PENDING);
    CHECK_GE(b.wakes, 1);
    CHECK_EQ(poll_with_budget(&all.future, &b, 0), AW_PENDING);
    CHECK_GE(b.wakes, 1);
    for (int i = 0; i < 3; i++)
        CHECK(!aw_future_started(&r[i].future));
    CHECK_EQ(poll_with_budget(&g.future, &b, 1), AW_READY);
    CHECK_GE(aw_select_winner(&g), 0);
}

TEST(a_select_of_many_that_begins_without_budget_polls_no_branch) {
    struct checked_waker b;
    aw_ready r[40];
    for (int i = 0; i < 40; i++)
        r[i] = aw_ready_now(i);
    aw_all all = aw_select_all(r, 40);
    CHECK_EQ(poll_with_budget(&all.future, &b, 0), AW_PENDING);
    CHECK_GE(b.wakes, 1);
    for (int i = 0; i < 40; i++)
        CHECK(!aw_future_started(&r[i].future));
    CHECK_EQ(poll_with_budget(&all.future, &b, 1), AW_READY);
    CHECK_GE(aw_select_all_winner(&all), 0);
}

/* Three branches: a notification, a future that is ready at its second poll whatever the budget,
 * and another notification. */
typedef struct below {
    aw_notify first, last;
    aw_notified a, c;
    note b;
    aw_group g;
} below;

static void below_begin(below *s, struct checked_waker *b) {
    memset(s, 0, sizeof *s);
    s->a = aw_notify_wait(&s->first);
    s->b = note_of('b', 0);
    s->b.polls = 1;
    s->c = aw_notify_wait(&s->last);
    s->g = aw_select_biased_refs(&s->a, &s->b, &s->c);
    CHECK_EQ(poll_with_budget(&s->g.future, b, 9), AW_PENDING);
}

TEST(a_select_without_budget_takes_no_winner_and_hands_the_latest_waker_on) {
    below s;
    struct checked_waker first, second, third;
    below_begin(&s, &first);
    aw_notify_one(&s.first);
    CHECK_EQ(poll_with_budget(&s.g.future, &second, 0), AW_PENDING);
    CHECK_GE(second.wakes, 1);
    CHECK(aw_future_finished(&s.b.future));
    checked_waker_retire(&first);
    int wakes = second.wakes;
    aw_notify_one(&s.last); /* it waits with the second waker now */
    CHECK_EQ(second.wakes, wakes + 1);
    CHECK_EQ(poll_with_budget(&s.g.future, &third, 9), AW_READY);
    CHECK_EQ(s.g.out & 1, 1);
    CHECK_EQ(s.g.out & 1 << 1, 1 << 1); /* its output is not lost */
    CHECK_EQ(aw_select_winner(&s.g), 0);
}

TEST(a_branch_that_finished_without_budget_wins_when_those_above_have_nothing) {
    below s;
    struct checked_waker b;
    below_begin(&s, &b);
    CHECK_EQ(poll_with_budget(&s.g.future, &b, 0), AW_PENDING);
    CHECK_GE(b.wakes, 1);
    CHECK_EQ(poll_with_budget(&s.g.future, &b, 9), AW_READY);
    CHECK_EQ(s.g.out, 1 << 1);
    CHECK_EQ(aw_select_winner(&s.g), 1);
}

TEST(a_select_that_is_cancelled_keeps_a_branch_that_finished_without_budget) {
    below s;
    struct checked_waker b;
    below_begin(&s, &b);
    CHECK_EQ(poll_with_budget(&s.g.future, &b, 0), AW_PENDING);
    aw_waker waker = checked_waker_of(&b);
    aw_cx cx = aw_cx_from_waker(&waker);
    CHECK_EQ(aw_future_cancel(&s.g.future, &cx), AW_READY);
    CHECK_EQ(s.g.out, 1 << 1);
    CHECK_EQ(aw_select_winner(&s.g), 1);
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

TEST(the_erased_forms_of_box_and_set_move_the_future) {
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
