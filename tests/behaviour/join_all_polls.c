/* SPDX-License-Identifier: MIT
 *
 * join_all, try_join_all and select_all: which children they poll. Up to thirty children, all of
 * them at each poll; above that, only those that were woken. Cancellation is in cancel_*.c. */
#include <errno.h>

#include "support/memory.h"
#include "support/composites.h"

/* Every composite over an array of n leaves, without the limit of support/composites.h. */
enum { MAX_CHILDREN = 300 };
static struct script s[MAX_CHILDREN];
static struct leaf leaves[MAX_CHILDREN];

static aw_all all_of(const aw_future_type *kind, int n, struct script orders) {
    for (int i = 0; i < n; i++) {
        s[i] = orders;
        leaves[i] = leaf(&s[i]);
    }
    return aw_all_of(kind, &leaves[0].future, sizeof leaves[0], (size_t)n);
}

static int polls(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += s[i].polls;
    return sum;
}
static int cancels(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += s[i].cancels;
    return sum;
}

static void take_all(int n) {
    for (int i = 0; i < n; i++)
        script_take(&s[i]);
    ownership_check_balanced();
}

static const struct script waits = {.pends = NEVER};

/* ---- Which children are polled ---------------------------------------------------------------- */

TEST(up_to_thirty_children_are_all_polled_each_time) {
    aw_all a = all_of(&aw_join_all_type, 30, waits);
    for (int n = 1; n <= 3; n++) {
        CHECK_EQ(drive_poll(&a.future), AW_PENDING);
        CHECK_EQ(polls(30), 30 * n);
    }
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    ownership_check_balanced();
}

#define ONLY_THE_WOKEN(kind, n)                                                                    \
    TEST(of_##n##_children_##kind##_polls_only_those_that_were_woken) {                            \
        aw_all a = all_of(&aw_##kind##_type, n, waits);                                            \
        CHECK_EQ(drive_poll(&a.future), AW_PENDING);                                               \
        CHECK_EQ(polls(n), n);                                                                     \
        CHECK_EQ(drive_wakes(), 0);                                                                \
                                                                                                   \
        CHECK_EQ(drive_poll(&a.future), AW_PENDING); /* no child was woken */                      \
        CHECK_EQ(polls(n), n);                                                                     \
                                                                                                   \
        script_wake(&s[7]);                                                                        \
        script_wake(&s[n - 1]);                                                                    \
        script_wake(&s[7]); /* twice is once */                                                    \
        CHECK_GT(drive_wakes(), 0);                                                                \
        CHECK_EQ(drive_poll(&a.future), AW_PENDING);                                               \
        CHECK_EQ(polls(n), n + 2);                                                                 \
        CHECK_EQ(s[7].polls, 2);                                                                   \
        CHECK_EQ(s[n - 1].polls, 2);                                                               \
        CHECK_EQ(drive_wakes(), 0);                                                                \
                                                                                                   \
        CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);                                           \
        CHECK_EQ(cancels(n), n);                                                                   \
        ownership_check_balanced();                                                                \
    }
ONLY_THE_WOKEN(join_all, 31)
ONLY_THE_WOKEN(join_all, 300)
ONLY_THE_WOKEN(try_join_all, 31)
ONLY_THE_WOKEN(select_all, 31)

TEST(n_children_that_finish_one_by_one_are_polled_twice_each) {
    aw_all a = all_of(&aw_join_all_type, MAX_CHILDREN, waits);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    for (int k = 0; k < MAX_CHILDREN; k++) {
        int i = k * 7 % MAX_CHILDREN; /* 7 and 300 have no common factor: each once */
        script_finish(&s[i]);
        CHECK_EQ(drive_wakes(), 1);
        CHECK_EQ(drive_poll(&a.future), k + 1 < MAX_CHILDREN ? AW_PENDING : AW_READY);
    }
    CHECK_EQ(polls(MAX_CHILDREN), 2 * MAX_CHILDREN);
    CHECK_EQ(a.out, 0);
    take_all(MAX_CHILDREN);
}

TEST(a_child_that_wakes_itself_is_polled_once_a_poll_and_wakes_the_parent) {
    aw_all a = all_of(&aw_join_all_type, 40, waits);
    s[5] = (struct script){.pends = 4, .busy = true};
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    for (int n = 1; n <= 4; n++) {
        CHECK_EQ(s[5].polls, n);
        CHECK_EQ(drive_wakes(), 1);
        CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    }
    CHECK_EQ(s[5].finished, 1);
    CHECK_EQ(drive_wakes(), 0);
    CHECK_EQ(polls(40), 44);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    ownership_check_balanced();
}

/* A leaf that finishes another leaf when it is polled. */
struct helper {
    aw_future future;
    int out;
    struct script *other;
    int calls;
};
static aw_poll helper_poll(aw_future *self, aw_cx *cx) {
    struct helper *h = (struct helper *)self;
    (void)cx;
    if (h->other && h->other->waker.type) script_finish(h->other);
    h->calls++;
    return AW_READY;
}
static const aw_future_type helper_type = {AW_TYPE_OF(struct helper, "helper"),
                                           .poll = helper_poll};
typedef AW_SELECT(struct leaf, struct helper) leaf_or_helper;

TEST(a_child_that_is_woken_by_a_sibling_during_the_poll_is_polled_in_the_next_one) {
    enum { N = 40 };
    static leaf_or_helper jobs[N];
    for (int i = 0; i < N; i++) {
        struct helper h = {AW_FUTURE_INIT(&helper_type), 0, i == N - 1 ? &s[3] : NULL, 0};
        s[i] = waits;
        if (i < N - 1) h.future.type = &aw_never_type; /* only the last one helps */
        jobs[i] = AW_SELECT_BIASED_OF(leaf_or_helper, leaf(&s[i]), h);
    }
    aw_all a = aw_join_all(jobs, N);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(s[3].polls, 1);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(s[3].finished, 1);
    CHECK_EQ(polls(N), N + 1);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    ownership_check_balanced();
}

/* ---- While children are cancelled ------------------------------------------------------------- */

TEST(a_decided_array_cancels_each_child_once_and_then_only_the_woken) {
    enum { N = 50 };
    aw_all a = all_of(&aw_select_all_type, N, (struct script){.pends = NEVER, .cancel_pends = 2});
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    script_finish(&s[20]);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(cancels(N), N - 1);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(cancels(N), N - 1);
    script_wake(&s[4]);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(cancels(N), N);
    CHECK_EQ(drive_cancel(&a.future), AW_PENDING); /* a cancel from outside changes nothing */
    CHECK_EQ(cancels(N), N);
    CHECK_EQ(polls(N), N + 1);
    for (int i = 0; i < N; i++)
        if (i != 20) script_finish_cancel(&s[i]);
    CHECK_EQ(drive_cancel(&a.future), AW_READY);
    CHECK_EQ(a.out, 20);
    script_take(&s[20]);
    ownership_check_balanced();
}

TEST(a_cancelled_array_cancels_each_child_once_and_then_only_the_woken) {
    enum { N = 50 };
    aw_all a = all_of(&aw_join_all_type, N, (struct script){.pends = NEVER, .cancel_pends = 2});
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&a.future), AW_PENDING);
    CHECK_EQ(cancels(N), N);
    CHECK_EQ(drive_cancel(&a.future), AW_PENDING);
    CHECK_EQ(cancels(N), N);
    for (int i = 0; i < N; i++)
        script_finish_cancel(&s[i]);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    CHECK_EQ(cancels(N), 2 * N);
    ownership_check_balanced();
}

/* ---- Outputs ---------------------------------------------------------------------------------- */

struct job {
    AW_FRAME(long);
    int n;
    aw_yield y;
    char more[40]; /* elements may be of any size */
};
AW_ASYNC_STATIC(job) {
    AW_BEGIN;
    for (; self->n % 5; self->n--)
        AW_AWAIT(self->y, aw_yield_now());
    AW_RETURN(self->n);
    AW_END;
}

#define OUTPUTS_IN_ORDER(count)                                                                    \
    TEST(join_all_of_##count##_gives_outputs_in_order) {                                           \
        static struct job jobs[count];                                                             \
        for (int i = 0; i < count; i++)                                                            \
            jobs[i] = AW_CALL(job, .n = i);                                                        \
        aw_all a = aw_join_all(jobs, count);                                                       \
        CHECK_EQ(drive_poll_to_end(&a.future), AW_READY);                                          \
        for (int i = 0; i < count; i++)                                                            \
            CHECK_EQ(jobs[i].out, i - i % 5);                                                      \
    }
OUTPUTS_IN_ORDER(3)
OUTPUTS_IN_ORDER(30)
OUTPUTS_IN_ORDER(31)
OUTPUTS_IN_ORDER(1000)

TEST(an_empty_array_is_joined_at_once) {
    aw_all a = all_of(&aw_join_all_type, 0, waits);
    CHECK_EQ(drive_poll(&a.future), AW_READY);
    a = all_of(&aw_try_join_all_type, 0, waits);
    CHECK_EQ(drive_poll(&a.future), AW_READY);
    CHECK_EQ(a.out, 0);
}

#define ENDED_ALREADY(kind, n)                                                                     \
    TEST(a_child_that_has_finished_before_counts_in_##kind##_of_##n) {                             \
        aw_all a = all_of(&aw_##kind##_type, n, (struct script){.pends = 0});                      \
        CHECK_EQ(drive_poll(&leaves[2].future), AW_READY);                                         \
        CHECK_EQ(drive_poll(&a.future), AW_READY);                                                 \
        CHECK_EQ(polls(n), n);                                                                     \
        take_all(n);                                                                               \
    }
ENDED_ALREADY(join_all, 5)
ENDED_ALREADY(join_all, 50)
ENDED_ALREADY(try_join_all, 5)
ENDED_ALREADY(try_join_all, 50)

/* ---- Memory ----------------------------------------------------------------------------------- */

static struct memory memory;

static void use_memory(void) {
    memory_init(&memory);
    aw_set_allocator(&memory.allocator);
}

TEST(up_to_thirty_children_need_no_memory) {
    use_memory();
    aw_all a = all_of(&aw_join_all_type, 30, (struct script){.pends = 1, .busy = true});
    CHECK_EQ(drive_poll_to_end(&a.future), AW_READY);
    CHECK_EQ(memory.calls, 0);
    take_all(30);
}

TEST(many_children_take_one_allocation_and_free_it_at_the_end) {
    use_memory();
    aw_all a = all_of(&aw_join_all_type, MAX_CHILDREN, (struct script){.pends = 1, .busy = true});
    CHECK_EQ(memory.calls, 0);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(memory.calls, 1);
    CHECK_EQ(drive_poll(&a.future), AW_READY);
    CHECK_EQ(memory.calls, 1);
    memory_check_empty(&memory);
    take_all(MAX_CHILDREN);

    a = all_of(&aw_select_all_type, MAX_CHILDREN, waits);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    memory_check_empty(&memory);
    CHECK_EQ(memory.calls, 2);
    ownership_check_balanced();
}

TEST(many_children_that_never_start_take_no_memory) {
    use_memory();
    aw_all a = all_of(&aw_join_all_type, MAX_CHILDREN, waits);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    CHECK_EQ(memory.calls, 0);
    ownership_check_balanced();
}

TEST(without_memory_for_their_wakers_all_children_are_polled_each_time) {
    use_memory();
    memory_refuse(&memory);
    aw_all a = all_of(&aw_join_all_type, MAX_CHILDREN, waits);
    for (int n = 1; n <= 3; n++) {
        CHECK_EQ(drive_poll(&a.future), AW_PENDING);
        CHECK_EQ(polls(MAX_CHILDREN), n * MAX_CHILDREN);
    }
    CHECK_EQ(memory.failures, 1); /* one attempt */
    for (int i = 0; i < MAX_CHILDREN; i++)
        script_finish(&s[i]);
    CHECK_EQ(drive_poll(&a.future), AW_READY);
    take_all(MAX_CHILDREN);

    a = all_of(&aw_join_all_type, MAX_CHILDREN, (struct script){.pends = NEVER, .cancel_pends = 1});
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&a.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    ownership_check_balanced();
}

/* A clone of a child's waker that exists after the end: it wakes nothing, and keeps the memory. */
TEST(a_child_waker_that_outlives_the_array_is_harmless) {
    use_memory();
    aw_all a = all_of(&aw_join_all_type, 40, waits);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    aw_waker late = aw_waker_clone(&s[9].waker);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    CHECK_EQ(memory.blocks, 1);
    aw_waker_wake_by_ref(&late);
    aw_waker_wake(aw_waker_clone(&late));
    CHECK_EQ(memory.blocks, 1);
    aw_waker_drop(late);
    memory_check_empty(&memory);
    ownership_check_balanced();
}

/* ---- Nested ----------------------------------------------------------------------------------- */

enum { INNER = 40, OUTER = 35 };
static struct script grid[OUTER][INNER];
static struct leaf grid_leaves[OUTER][INNER];
static int row_polls[OUTER];

AW_ASYNC(int, row, int n; int i; aw_all all;) {
    AW_BEGIN;
    for (self->i = 0; self->i < INNER; self->i++) {
        grid[self->n][self->i] = waits;
        grid_leaves[self->n][self->i] = leaf(&grid[self->n][self->i]);
    }
    AW_AWAIT(self->all, aw_join_all(grid_leaves[self->n], INNER));
    for (self->i = 0; self->i < INNER; self->i++)
        ownership_release(grid_leaves[self->n][self->i].out);
    AW_RETURN(self->n);
    AW_END;
}

/* Counts the polls of what it wraps. */
struct counted_row {
    aw_future future;
    int out, n;
    struct row inner;
};
static aw_poll counted_poll(aw_future *self, aw_cx *cx) {
    struct counted_row *c = (struct counted_row *)self;
    row_polls[c->n]++;
    return aw_future_poll(&c->inner.future, cx);
}
static aw_poll counted_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_cancel(&((struct counted_row *)self)->inner.future, cx);
}
static const aw_future_type counted_type = {AW_TYPE_OF(struct counted_row, "counted row"),
                                            .poll = counted_poll, .cancel = counted_cancel};

TEST(a_wake_deep_inside_costs_one_poll_a_level) {
    static struct counted_row rows[OUTER];
    for (int i = 0; i < OUTER; i++)
        rows[i] = (struct counted_row){AW_FUTURE_INIT(&counted_type), 0, i, AW_CALL(row, .n = i)};
    aw_all a = aw_join_all(rows, OUTER);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    script_wake(&grid[17][23]);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    for (int i = 0; i < OUTER; i++) {
        CHECK_EQ(row_polls[i], i == 17 ? 2 : 1);
        for (int k = 0; k < INNER; k++)
            CHECK_EQ(grid[i][k].polls, i == 17 && k == 23 ? 2 : 1);
    }
    for (int i = 0; i < OUTER; i++)
        for (int k = 0; k < INNER; k++)
            script_finish(&grid[i][k]);
    CHECK_EQ(drive_poll(&a.future), AW_READY);
    CHECK_EQ(row_polls[17], 3);
    ownership_check_balanced();
}

/* ---- A child that forgets its waker ----------------------------------------------------------- */

static char said[4096];
static int reports;
static void remember(void *data, aw_log_level level, const char *message) {
    (void)data;
    if (level != AW_LOG_PROBLEM) return;
    reports++;
    snprintf(said, sizeof said, "%s", message);
}

static aw_poll forget(void *arg, aw_cx *cx, int *out) {
    (void)cx;
    (void)out;
    return ++*(int *)arg > 3 ? AW_READY : AW_PENDING;
}

TEST(many_children_that_forget_their_wakers_are_reported_once) {
    static aw_poll_fn jobs[40];
    aw_set_log(remember, NULL);
    static int counts[40];
    for (int i = 0; i < 40; i++)
        jobs[i] = aw_poll_fn_of(forget, &counts[i]);
    aw_all a = aw_join_all(jobs, 40);
    for (int calls = 0; calls < 5; calls++)
        CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(reports, 1);
    CHECK_CONTAINS(said, "join_all has 40 pending children");
    CHECK_EQ(counts[0], 1);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
}

TEST(children_that_keep_their_wakers_are_not_reported) {
    aw_set_log(remember, NULL);
    aw_all a = all_of(&aw_join_all_type, 40, waits);
    for (int n = 0; n < 3; n++)
        CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    a = all_of(&aw_join_all_type, 40, (struct script){.pends = NEVER, .borrows = true});
    for (int n = 0; n < 3; n++)
        CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    static aw_never nevers[40];
    for (int i = 0; i < 40; i++)
        nevers[i] = aw_never_ready();
    a = aw_join_all(nevers, 40);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
    CHECK_EQ(reports, 0);
    ownership_check_balanced();
}
