/* SPDX-License-Identifier: MIT
 *
 * The growing set: it yields its children as they finish, polls only the woken ones, and never
 * moves one. Cancellation is in cancel_*.c, memory and threads in set_memory.c. */
#include <errno.h>

#include "support/composites.h"

enum { MAX_CHILDREN = 200 };
static struct script s[MAX_CHILDREN];
static aw_set set;

static void push(int i, struct script orders) {
    s[i] = orders;
    CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
}

static void fill(int n, struct script orders) {
    aw_set_init(&set, sizeof(struct leaf));
    for (int i = 0; i < n; i++)
        push(i, orders);
}

static int polls(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += s[i].polls;
    return sum;
}

/* The script of the child that one call of next yields; NULL: next was pending, and has been
 * cancelled. */
static struct script *next_now(void) {
    aw_set_next_future next = aw_set_next(&set);
    if (drive_poll(&next.future) == AW_PENDING) {
        CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);
        return NULL;
    }
    CHECK(next.out != NULL);
    struct leaf *done = AW_SET_AS(struct leaf, &next);
    CHECK_EQ(done->out, done->script->out);
    ownership_release(done->out);
    return done->script;
}

static void empty(void) {
    aw_set_clear_future clear = aw_set_clear(&set);
    CHECK_EQ(drive_poll(&clear.future), AW_READY);
    CHECK_EQ(set.count, 0);
    aw_set_free(&set);
    ownership_check_balanced();
}

static const struct script waits = {.pends = NEVER};

/* ---- What it yields -------------------------------------------------------------------------- */

TEST(children_are_yielded_as_they_finish) {
    static const int order[] = {4, 0, 9, 1, 8, 3};
    fill(10, waits);
    CHECK(next_now() == NULL);
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        script_finish(&s[order[k]]);
        CHECK(next_now() == &s[order[k]]);
        CHECK_EQ(set.count, 9 - k);
    }
    CHECK(next_now() == NULL);
    empty();
}

TEST(children_that_finish_together_are_yielded_one_by_one) {
    fill(100, (struct script){.pends = 0});
    bool seen[100] = {false};
    for (int k = 0; k < 100; k++) {
        int i = (int)(next_now() - s);
        CHECK(!seen[i]);
        seen[i] = true;
    }
    CHECK_EQ(polls(100), 100);
    empty();
}

TEST(an_empty_set_yields_nothing) {
    aw_set_init(&set, sizeof(struct leaf));
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_READY);
    CHECK(next.out == NULL);
    empty();
}

TEST(what_was_yielded_stays_readable_until_the_next_one_also_when_children_are_added) {
    fill(8, (struct script){.pends = 0}); /* a full block */
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_READY);
    struct leaf *done = AW_SET_AS(struct leaf, &next);
    struct leaf before = *done;
    for (int i = 8; i < 40; i++)
        push(i, waits);
    CHECK(aw_future_finished(&done->future));
    CHECK(done->future.type == before.future.type);
    CHECK_EQ(done->out, before.out);
    CHECK(done->script == before.script);
    CHECK_EQ(set.count, 39);
    ownership_release(done->out);
    empty();
}

/* ---- Which children it polls ----------------------------------------------------------------- */

TEST(only_the_woken_children_are_polled) {
    fill(100, waits);
    CHECK(next_now() == NULL);
    CHECK_EQ(polls(100), 100);
    CHECK(next_now() == NULL);
    CHECK_EQ(polls(100), 100);
    script_wake(&s[3]);
    script_wake(&s[77]);
    script_wake(&s[3]);
    CHECK(next_now() == NULL);
    CHECK_EQ(polls(100), 102);
    CHECK_EQ(s[3].polls + s[77].polls, 4);
    empty();
}

TEST(a_child_that_was_added_is_polled_by_the_next_next_and_the_others_are_not) {
    fill(5, waits);
    CHECK(next_now() == NULL);
    push(5, (struct script){.pends = 0});
    push(6, waits);
    CHECK(next_now() == &s[5]);
    CHECK(next_now() == NULL);
    CHECK_EQ(polls(5), 5);
    CHECK_EQ(s[6].polls, 1);
    empty();
}

TEST(a_pending_next_is_polled_again_only_for_a_wake) {
    fill(20, waits);
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    CHECK_EQ(drive_wakes(), 0);
    script_finish(&s[11]);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_poll(&next.future), AW_READY);
    CHECK(AW_SET_AS(struct leaf, &next)->script == &s[11]);
    script_take(&s[11]);
    empty();
}

TEST(a_child_that_wakes_itself_is_polled_once_a_poll_and_does_not_keep_others_waiting) {
    fill(20, waits);
    s[0].busy = true;
    aw_set_next_future next = aw_set_next(&set);
    for (int n = 1; n <= 5; n++) {
        CHECK_EQ(drive_poll(&next.future), AW_PENDING);
        CHECK_EQ(s[0].polls, n);
        CHECK_EQ(drive_wakes(), 1);
    }
    script_finish(&s[19]);
    CHECK_EQ(drive_poll(&next.future), AW_READY);
    script_take(&s[19]);
    empty();
}

TEST(a_late_waker_of_a_child_that_was_yielded_is_harmless) {
    fill(1, waits);
    CHECK(next_now() == NULL);
    aw_waker late = aw_waker_clone(&s[0].waker);
    script_finish(&s[0]);
    CHECK(next_now() == &s[0]);
    aw_waker_wake_by_ref(&late); /* its slot is empty */
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_READY);
    CHECK(next.out == NULL);
    push(1, waits); /* takes the same slot */
    CHECK(next_now() == NULL);
    aw_waker_wake(late);
    CHECK(next_now() == NULL); /* one spurious poll, no more */
    CHECK_EQ(s[1].polls, 2);
    empty();
}

/* ---- Adding children while it is polled ------------------------------------------------------ */

/* Adds a child to the set that it is in, and waits for something else. */
struct pusher {
    aw_future future;
    int out;
    int next; /* the script of the child to add */
    bool done;
};
static aw_poll pusher_poll(aw_future *self, aw_cx *cx) {
    struct pusher *p = (struct pusher *)self;
    (void)cx;
    if (!p->done) push(p->next, (struct script){.pends = 0});
    p->done = true;
    aw_cx_arm(cx);
    return AW_PENDING;
}
static aw_poll pusher_cancel(aw_future *self, aw_cx *cx) {
    if (((struct pusher *)self)->done) aw_cx_disarm(cx);
    return AW_CANCELLED;
}
static const aw_future_type pusher_type = {AW_TYPE_OF(struct pusher, "pusher"), .poll = pusher_poll,
                                           .cancel = pusher_cancel};

/* Also when the set was full, and at whichever slot the adding child is. */
TEST(a_child_that_another_child_adds_while_it_is_polled_is_not_forgotten) {
    for (int full = 1; full <= 40; full++)
        for (int at = 0; at < full; at++) {
            ownership_reset();
            aw_set_init(&set, sizeof(struct leaf) > sizeof(struct pusher) ? sizeof(struct leaf)
                                                                          : sizeof(struct pusher));
            for (int i = 0; i < full; i++) {
                struct pusher p = {AW_FUTURE_INIT(&pusher_type), 0, MAX_CHILDREN - 1, false};
                if (i == at)
                    CHECK_EQ(aw_set_push(&set, p), 0);
                else
                    push(i, waits);
            }
            aw_set_next_future next = aw_set_next(&set);
            CHECK_EQ(drive_poll_to_end(&next.future), AW_READY); /* is woken while it is pending */
            CHECK(AW_SET_AS(struct leaf, &next)->script == &s[MAX_CHILDREN - 1]);
            script_take(&s[MAX_CHILDREN - 1]);
            empty();
        }
}

AW_ASYNC(int, add_later, int first, n; struct script * event; struct leaf l;) {
    AW_BEGIN;
    AW_AWAIT(self->l, leaf(self->event));
    ownership_release(self->l.out);
    for (; self->n; self->n--)
        push(self->first++, waits);
    push(self->first, (struct script){.pends = 0});
    AW_RETURN(0);
    AW_END;
}
typedef AW_JOIN(aw_set_next_future, struct add_later) next_and_add;

TEST(a_child_that_is_added_during_a_pending_next_is_not_forgotten) {
    for (int n = 0; n < 20; n++) {
        struct script event = {.pends = 1};
        fill(5, waits);
        next_and_add j = AW_JOIN_BIASED_OF(next_and_add, aw_set_next(&set),
                                           AW_CALL(add_later, .first = 5, .n = n, .event = &event));
        CHECK_EQ(drive_poll(&j.future), AW_PENDING);
        script_finish(&event);
        CHECK_EQ(drive_poll_to_end(&j.future), AW_READY);
        CHECK(AW_SET_AS(struct leaf, &j.f0)->script == &s[5 + n]);
        script_take(&s[5 + n]);
        empty();
    }
}

/* ---- Addresses ------------------------------------------------------------------------------- */

/* Remembers where it was first polled. */
struct pinned {
    aw_future future;
    struct pinned *out, *at;
    int polls;
};
static aw_poll pinned_poll(aw_future *self, aw_cx *cx) {
    struct pinned *p = (struct pinned *)self;
    if (!p->at) p->at = p;
    CHECK(p->at == p);
    if (p->polls-- == 0) {
        p->out = p;
        return AW_READY;
    }
    aw_waker_wake_by_ref(cx->waker);
    return AW_PENDING;
}
static const aw_future_type pinned_type = {AW_TYPE_OF(struct pinned, "pinned"),
                                           .poll = pinned_poll};

TEST(children_stay_where_they_are_while_the_set_grows) {
    enum { N = 3000 };
    aw_set_init(&set, sizeof(struct pinned));
    uint64_t random = test_seed();
    int pushed = 0, done = 0;
    while (done < N) {
        for (uint64_t k = test_random(&random) % 20; k && pushed < N; k--, pushed++) {
            struct pinned p = {AW_FUTURE_INIT(&pinned_type), NULL, NULL, 0};
            p.polls = (int)(test_random(&random) % 30);
            CHECK_EQ(aw_set_push(&set, p), 0);
        }
        if (!set.count) continue;
        aw_set_next_future next = aw_set_next(&set);
        if (drive_poll(&next.future) == AW_PENDING) {
            CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);
            continue;
        }
        CHECK(AW_SET_AS(struct pinned, &next)->out == (void *)next.out);
        done++;
    }
    aw_set_free(&set);
}

/* ---- Children of different types ------------------------------------------------------------- */

TEST(a_child_that_is_too_large_is_refused_and_a_smaller_one_is_not) {
    aw_set_init(&set, sizeof(struct leaf));
    struct relay big = AW_CALL(relay, .script = &s[0]);
    CHECK_GT(sizeof big, sizeof(struct leaf));
    CHECK_EQ(aw_set_push(&set, big), -EINVAL);
    CHECK_EQ(set.count, 0);
    CHECK_EQ(aw_set_push(&set, aw_ready_now(5)), 0);
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_READY);
    CHECK_EQ(AW_SET_AS(aw_ready, &next)->out, 5);
    empty();
}

TEST(unlike_futures_go_in_as_boxes) {
    aw_set_init(&set, sizeof(aw_box));
    s[0] = (struct script){.pends = 1, .busy = true};
    s[1] = (struct script){.pends = NEVER};
    CHECK_EQ(aw_set_push(&set, aw_box_new(AW_CALL(relay, .script = &s[0]))), 0);
    CHECK_EQ(aw_set_push(&set, aw_box_new(leaf(&s[1]))), 0);
    CHECK_EQ(aw_set_push(&set, aw_box_new(aw_ready_now(9))), 0);
    int sum = 0;
    for (int k = 0; k < 2; k++) {
        aw_set_next_future next = aw_set_next(&set);
        CHECK_EQ(drive_poll_to_end(&next.future), AW_READY);
        aw_box *b = AW_SET_AS(aw_box, &next);
        if (b->inner->type == &aw_ready_type)
            sum += aw_box_take(aw_ready, b);
        else
            ownership_release(aw_box_take(struct relay, b));
    }
    CHECK_EQ(sum, 9);
    empty();
}

static void free_with_children(void) {
    fill(3, waits);
    aw_set_free(&set);
}

TEST(a_set_with_children_that_is_freed_is_caught) {
    DIES(free_with_children(), "a set with 3 children was freed");
}

TEST(a_set_can_be_used_again_after_it_was_freed) {
    fill(20, (struct script){.pends = 0});
    for (int k = 0; k < 20; k++)
        CHECK(next_now() != NULL);
    aw_set_free(&set);
    push(0, (struct script){.pends = 0});
    CHECK(next_now() == &s[0]);
    empty();
}

/* ---- In a task ------------------------------------------------------------------------------- */

/* A child that always finds work uses up the whole budget of a poll. */
AW_ASYNC(int, greedy, long *done; aw_sleep s;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->s, aw_sleep_for(0));
        ++*self->done;
    }
    AW_END;
}

enum { GREEDY = 60 }; /* three blocks */
static long done[GREEDY];
typedef AW_SELECT(aw_set_next_future, struct leaf) next_or_leaf;

AW_ASYNC(int, run_greedy, aw_set *set; struct script * stop; next_or_leaf s;
         aw_set_clear_future c;) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->s, aw_set_next(self->set), leaf(self->stop));
    CHECK_EQ(aw_select_winner(&self->s), 1);
    ownership_release(self->s.f1.out);
    AW_AWAIT(self->c, aw_set_clear(self->set));
    AW_RETURN(0);
    AW_END;
}

TEST(greedy_children_do_not_starve_the_others) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    aw_set_init(&set, sizeof(struct greedy));
    for (int i = 0; i < GREEDY; i++)
        CHECK_EQ(aw_set_push(&set, AW_CALL(greedy, .done = &done[i])), 0);
    struct script stop = {.pends = 20 * GREEDY, .busy = true};
    CHECK_EQ(aw_block_on(rt, AW_CALL(run_greedy, .set = &set, .stop = &stop)), 0);
    for (int i = 0; i < GREEDY; i++)
        CHECK_GT(done[i], 0);
    aw_set_free(&set);
    aw_runtime_free(rt);
    ownership_check_balanced();
}

/* ---- From task to task ----------------------------------------------------------------------- */

static int problems;
static void count_problems(void *data, aw_log_level level, const char *message) {
    (void)data;
    fprintf(stderr, "%s\n", message);
    if (level != AW_LOG_INFO) problems++;
}

static aw_notify bell;
enum { WAITERS = 12 };

/* Looks for a finished child, finds none, and leaves the set to another task. */
typedef AW_SELECT(aw_set_next_future, aw_yield) next_or_not;
AW_ASYNC(int, give_up, aw_set *set; next_or_not s;) {
    AW_BEGIN;
    AW_AWAIT_SELECT_BIASED(self->s, aw_set_next(self->set), aw_yield_now());
    CHECK_EQ(aw_select_winner(&self->s), 1);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, collect, aw_set *set; int n; aw_set_next_future next;) {
    AW_BEGIN;
    for (self->n = 0; self->set->count; self->n++)
        AW_AWAIT(self->next, aw_set_next(self->set));
    AW_RETURN(self->n);
    AW_END;
}

AW_ASYNC(int, ring, int n; aw_sleep nap;) {
    AW_BEGIN;
    for (; self->n; self->n--) {
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
        aw_notify_one(&bell);
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, hand_over, aw_set *set; struct give_up * a; struct collect * b; struct ring * r;
         aw_task_join_future j;) {
    AW_BEGIN;
    self->a = aw_spawn(AW_CALL(give_up, .set = self->set));
    AW_AWAIT(self->j, aw_task_join(self->a));
    aw_task_drop(self->a);
    self->b = aw_spawn(AW_CALL(collect, .set = self->set));
    self->r = aw_spawn(AW_CALL(ring, .n = WAITERS));
    AW_AWAIT(self->j, aw_task_join(self->b));
    CHECK_EQ(self->j.out, 0);
    CHECK_EQ(self->b->out, WAITERS);
    aw_task_drop(self->b);
    aw_task_drop(self->r);
    AW_RETURN(0);
    AW_END;
}

TEST(a_set_that_goes_from_one_task_to_another_is_not_reported_as_lost) {
    aw_runtime *rt;
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.paused = true;
    options.log = count_problems;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    aw_set_init(&set, sizeof(aw_notified));
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(aw_set_push(&set, aw_notify_wait(&bell)), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(hand_over, .set = &set)), 0);
    aw_set_free(&set);
    aw_runtime_free(rt);
    CHECK_EQ(problems, 0);
}
