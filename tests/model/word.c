/* SPDX-License-Identifier: MIT
 *
 * workers/word.h under every schedule, by way of the real workers/task.c and join.c: a task that is woken,
 * aborted, joined and given back by others while workers run it. It is in the queue once, no wake is
 * lost, its output is taken or discarded once, and it is freed once, when nobody uses it any more. The
 * queue has one place, and the rest of the runtime is only what a task needs. */
#include "support/model.h"
#include "support/model_park.h"

#include <awake.h>

#define AW__SHARDS 1

/* In place of the library's. */
#define aw__pool_look      modelled_look
#define aw__lock_slow      modelled_lock_slow
#define aw__pool_schedule  modelled_schedule
#define aw__shelf_take     modelled_shelf_take
#define aw__shelf_give     modelled_shelf_give
#define aw__room_in        modelled_room_in
#define aw__rt_free_memory modelled_free_memory
#define aw__thread         modelled_thread

#define sched_yield() model_yield()
#include "os/lock.c"
#undef sched_yield

#include "workers/join.c"
#include "workers/task.c"

_Thread_local struct modelled_thread modelled_thread;

enum { WORKERS = 2 };

struct gate {
    aw_future future;
    int out, polls;
    int yields; /* how often it wakes itself */
};

static aw_runtime *rt;
static aw__task *queued, *task;
static uint32_t told, needed, over;
static int ended, discarded, taken, reason;
static aw_waker wakers[2];
static uint32_t late_bell; /* what a join wakes when no lock is held: it is never gone */

/* ---- What a task needs ------------------------------------------------------------------------ */

aw__task *aw__shelf_take(aw__pool *p, size_t frame_size) {
    aw__room *r = model_alloc(sizeof(aw__room) + sizeof(aw__task) + frame_size);
    aw__task *t = (aw__task *)(void *)(r + 1);
    r->rt = p->rt;
    t->room = sizeof(aw__room) / AW__ROOM_STEP;
    return t;
}
aw__task *aw__room_in(aw_runtime *of, void *storage) {
    (void)of, (void)storage;
    return NULL;
}
void aw__shelf_give(aw__pool *p, aw__task *t) {
    (void)p;
    model_free(aw__task_room(t));
}
void aw__rt_free_memory(aw_runtime *gone) {
    model_free(gone->pool);
    model_free(gone);
}

/* It links the task, as every queue does. */
void aw__pool_schedule(aw__pool *p, aw__task *t, bool yielding) {
    (void)yielding;
    (void)aw__load_relaxed(&t->pin);
    model_write(&t->next, NULL);
    const aw__task *before = aw__exchange(&queued, t);
    model_check(!before);
    (void)aw__load_relaxed(&p->stop); /* as who notifies: the pool is still there */
}

/* The pool is there. */
void aw__pool_look(aw__pool *p) {
    (void)aw__load_relaxed(&p->stop);
}

static aw_poll gate_poll(aw_future *f, aw_cx *cx) {
    struct gate *g = (struct gate *)f;
    model_write(&g->polls, model_read(&g->polls) + 1);
    if (model_read(&g->yields) > 0) {
        model_write(&g->yields, g->yields - 1);
        aw_waker_wake_by_ref(cx->waker);
        return AW_PENDING;
    }
    if (aw__load_relaxed(&told) < needed) return AW_PENDING;
    model_write(&g->out, 1);
    ended++;
    return AW_READY;
}
static aw_poll gate_cancel(aw_future *f, aw_cx *cx) {
    struct gate *g = (struct gate *)f;
    (void)cx;
    model_write(&g->polls, model_read(&g->polls) + 1);
    model_check(model_read(&reason) == 1);
    ended++;
    return AW_CANCELLED;
}
static void gate_discard(aw_future *f) {
    struct gate *g = (struct gate *)f;
    model_check(model_read(&g->out) == 1);
    model_write(&g->out, 2);
    discarded++;
}
static const aw_future_type gate_type = {AW_TYPE_OF(struct gate, "gate"), .poll = gate_poll,
                                         .cancel = gate_cancel, .discard = gate_discard};

static void setup_needing(uint32_t wakes, bool polled, int references, int yields) {
    static const aw_place place = {"word.c", 1, NULL};
    struct gate g = {AW_FUTURE_INIT(&gate_type), 0, 0, yields};
    modelled_thread = (struct modelled_thread){0};
    model_thread_local(&modelled_thread, sizeof modelled_thread);
    queued = NULL;
    told = over = 0;
    needed = wakes;
    ended = discarded = taken = reason = 0;
    late_bell = 0;
    rt = model_alloc(sizeof *rt);
    rt->pool = model_alloc(sizeof(aw__pool) + WORKERS * sizeof(aw__worker));
    rt->pool->rt = rt;
    rt->pool->allocated = 1;
    task = aw__task_of(aw__pool_spawn(rt, 0, &g.future, sizeof g, &place, NULL, NULL));
    for (int i = 0; i < references; i++)
        wakers[i] = aw__pool_waker_type.clone(task);
    if (!polled) return;
    aw__word_run(&task->word);
    queued = NULL;
    aw__word_pend(&task->word);
}
static void setup_new(void) {
    setup_needing(2, false, 2, 0);
}
static void setup_waiting(void) {
    setup_needing(1, true, 1, 0);
}
static void setup_one_waker(void) {
    setup_needing(1, false, 1, 0);
}
static void setup_no_waker(void) {
    setup_needing(1, false, 0, 0);
}
static void setup_yielding(void) {
    setup_needing(1, false, 1, 1);
}
static void setup_yielding_alone(void) {
    setup_needing(1, false, 0, 1);
}
static void setup_two_wakers(void) {
    setup_needing(1, true, 2, 0);
}

/* ---- Workers: as run_task --------------------------------------------------------------------- */

static bool is_queued_or_over(void *unused) {
    (void)unused;
    return queued || over;
}

static aw_poll poll(aw__worker *w, aw__task *t, bool cancel) {
    aw_waker waker = {&aw__pool_waker_type, t};
    aw_cx cx = {&waker, rt, NULL};
    aw_future *f = aw__task_frame(t);
    w->woken = false;
    w->current = t;
    modelled_thread.worker = w;
    aw_poll r = cancel ? aw_future_cancel(f, &cx) : aw_future_poll(f, &cx);
    modelled_thread.worker = NULL;
    return r;
}

static void work(void) {
    aw__worker *w = &rt->pool->workers[model_self()];
    for (;;) {
        model_wait(is_queued_or_over, NULL);
        aw__task *t = aw__exchange(&queued, (aw__task *)NULL);
        if (!t && aw__load_relaxed(&over)) return;
        if (!t) continue;
        model_check(!model_read(&t->next));
        aw_poll r = poll(w, t, aw__pool_begin(t));
        if (r != AW_PENDING) {
            aw__pool_complete(rt->pool, t, r);
            aw__store_relaxed(&over, 1u);
        } else if (aw__pool_pause(t, w->woken)) {
            aw__pool_schedule(rt->pool, t, true);
        }
    }
}

/* ---- Who wakes -------------------------------------------------------------------------------- */

static void wake_with(int i) {
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake(wakers[i]);
}
static void wake_first(void) {
    wake_with(0);
}
static void wake_second(void) {
    wake_with(1);
}
static void drop_second(void) {
    aw_waker_drop(wakers[1]);
}
static void wake_by_reference_then_drop(void) {
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake_by_ref(&wakers[0]);
    aw_waker_drop(wakers[0]);
}

/* ---- Who has the handle ----------------------------------------------------------------------- */

/* What a join wakes: gone as soon as the join has ended. */
struct bell {
    uint32_t word;
};

static void ring_bell(void *data) {
    model_unpark(&((struct bell *)data)->word);
}
static aw_waker no_clone(void *data) {
    (void)data;
    model_fail("it is woken under the lock");
}
static const aw_waker_type bell_type = {.self_size = sizeof(aw_waker_type),
                                        .name = "bell",
                                        .flags = AW_WAKES_UNDER_LOCK,
                                        .clone = no_clone,
                                        .wake = ring_bell,
                                        .wake_by_ref = ring_bell,
                                        .drop = ring_bell};

static void ring_late(void *data) {
    model_unpark((uint32_t *)data);
}
static aw_waker clone_late(void *data);
static const aw_waker_type late_type = {.self_size = sizeof(aw_waker_type),
                                        .name = "late bell",
                                        .clone = clone_late,
                                        .wake = ring_late,
                                        .wake_by_ref = ring_late,
                                        .drop = ring_late};
static aw_waker clone_late(void *data) {
    return (aw_waker){&late_type, data};
}

static aw_task_join_future *new_join(void) {
    aw_task_join_future *j = model_alloc(sizeof *j);
    *j = aw__task_join(aw__task_frame(task));
    return j;
}
static aw_poll poll_join(aw_task_join_future *j, const aw_waker *waker) {
    aw_cx cx = {waker, NULL, NULL};
    return aw__pool_join_poll(j, task, &cx);
}
/* It has reported: nobody may touch it, or what it woke, from now on. */
static void take_output(aw_task_join_future *j) {
    struct gate *g = (struct gate *)aw__task_frame(task);
    if (j->out == 0) {
        model_check(model_read(&g->out) == 1);
        taken++;
    } else {
        model_check(j->out == -ECANCELED && model_read(&g->out) == 0);
    }
    model_free(j);
}

static void join_until_it_ends(void) {
    aw_task_join_future *j = new_join();
    struct bell *b = model_alloc(sizeof *b);
    aw_waker waker = {&bell_type, b};
    while (poll_join(j, &waker) == AW_PENDING)
        model_park(&b->word);
    take_output(j);
    model_free(b);
}
static void join(void) {
    join_until_it_ends();
    aw__pool_drop(task);
}
/* What it did before is seen by the cancel. */
static void abort_it(void) {
    model_write(&reason, 1);
    aw__pool_abort(task);
}
static void abort_and_join(void) {
    abort_it();
    join();
}
static void join_late(void) {
    aw_task_join_future *j = new_join();
    aw_waker waker = {&late_type, &late_bell};
    while (poll_join(j, &waker) == AW_PENDING)
        model_park(&late_bell);
    take_output(j);
    aw__pool_drop(task);
}
/* Polled by one and then by another: the first may be gone then. */
static void join_twice(void) {
    aw_task_join_future *j = new_join();
    struct bell *first = model_alloc(sizeof *first), *second = model_alloc(sizeof *second);
    aw_waker waker = {&bell_type, first}, other = {&bell_type, second};
    aw_poll r = poll_join(j, &waker);
    if (r == AW_PENDING) r = poll_join(j, &other);
    model_free(first);
    while (r == AW_PENDING) {
        model_park(&second->word);
        r = poll_join(j, &other);
    }
    take_output(j);
    model_free(second);
    aw__pool_drop(task);
}
static void join_and_cancel(void) {
    aw_task_join_future *j = new_join();
    struct bell *b = model_alloc(sizeof *b);
    aw_waker waker = {&bell_type, b};
    aw_cx cx = {&waker, NULL, NULL};
    aw_poll r = poll_join(j, &waker);
    if (r == AW_PENDING) r = aw__pool_join_cancel(j, task, &cx);
    if (r == AW_READY)
        take_output(j);
    else
        model_free(j);
    model_free(b);
}
static void join_cancel_and_drop(void) {
    join_and_cancel();
    aw__pool_drop(task);
}
static void join_cancel_and_join(void) {
    join_and_cancel();
    int before = taken;
    join_until_it_ends();
    taken = before || taken; /* the second one may look, too */
    aw__pool_drop(task);
}
static void drop(void) {
    aw__pool_drop(task);
}
static void abort_and_drop(void) {
    abort_it();
    aw__pool_drop(task);
}
static void look_and_drop(void) {
    const struct gate *g = (const struct gate *)aw__task_frame(task);
    if (aw__word_is_done(&task->word)) model_check(model_read(&g->out) == 1);
    aw__pool_drop(task);
}

/* ---- Promises --------------------------------------------------------------------------------- */

static void it_has_ended(void) {
    model_check(ended == 1 && !queued);
    model_check(rt->pool->live == 0 && rt->pool->allocated == 1);
    aw__rt_free_memory(rt);
    model_check(model_allocated() == 0);
}
static void its_output_was_taken(void) {
    model_check(taken == 1 && discarded == 0);
    it_has_ended();
}
static void its_output_was_taken_or_discarded(void) {
    model_check(taken + discarded == 1);
    it_has_ended();
}
static void it_can_be_given_back(void) {
    aw__pool_drop(task);
    its_output_was_taken_or_discarded();
}
static void it_may_have_been_cancelled(void) {
    model_check(taken + discarded <= 1);
    it_has_ended();
}

MODEL(no_wake_is_lost, .setup = setup_new, .threads = {work, wake_first, wake_second},
      .check = it_can_be_given_back)
MODEL(a_task_may_go_on_on_another_worker, .setup = setup_new,
      .threads = {work, work, wake_first, wake_second}, .check = it_can_be_given_back, .stale = 1)
MODEL(a_task_is_polled_by_one_worker_and_then_by_another, .setup = setup_one_waker,
      .threads = {work, work, wake_first}, .check = it_can_be_given_back)
MODEL(a_task_that_nobody_wakes_can_be_aborted, .setup = setup_no_waker,
      .threads = {work, work, abort_and_drop}, .check = it_may_have_been_cancelled)
MODEL(a_task_that_wakes_itself_is_woken_by_others_too, .setup = setup_yielding,
      .threads = {work, work, wake_first}, .check = it_can_be_given_back)
MODEL(a_task_that_wakes_itself_can_be_aborted, .setup = setup_yielding_alone,
      .threads = {work, work, abort_and_drop}, .check = it_may_have_been_cancelled)
MODEL(a_join_is_woken_once_and_then_left_alone, .setup = setup_waiting,
      .threads = {work, wake_first, join}, .check = its_output_was_taken)
MODEL(a_join_may_be_woken_when_no_lock_is_held, .setup = setup_waiting,
      .threads = {work, wake_first, join_late}, .check = its_output_was_taken)
MODEL(a_join_may_change_its_waker, .setup = setup_waiting,
      .threads = {work, wake_first, join_twice}, .check = its_output_was_taken)
MODEL(a_join_that_is_cancelled_is_left_alone, .setup = setup_waiting,
      .threads = {work, wake_first, join_cancel_and_drop},
      .check = its_output_was_taken_or_discarded)
MODEL(a_join_may_follow_one_that_was_cancelled, .setup = setup_waiting,
      .threads = {work, wake_first, join_cancel_and_join}, .check = its_output_was_taken)
MODEL(an_output_that_nobody_takes_is_discarded_once, .setup = setup_two_wakers,
      .threads = {work, wake_first, drop, drop_second}, .check = its_output_was_taken_or_discarded,
      .stale = 1)
MODEL(who_sees_that_it_is_done_sees_the_output, .setup = setup_two_wakers,
      .threads = {work, wake_by_reference_then_drop, look_and_drop, drop_second},
      .check = its_output_was_taken_or_discarded, .stale = 1)
MODEL(an_abort_comes_before_or_after_the_end, .setup = setup_two_wakers,
      .threads = {work, wake_first, abort_and_drop, drop_second},
      .check = it_may_have_been_cancelled, .stale = 1)
MODEL(an_aborted_task_joins_as_finished_or_cancelled, .setup = setup_waiting,
      .threads = {work, wake_first, abort_and_join}, .check = it_may_have_been_cancelled)
MODEL(a_task_is_woken_and_joined_and_its_wakers_go, .setup = setup_new,
      .threads = {work, wake_first, wake_second, join}, .check = its_output_was_taken,
      .preemptions = 1, .stale = 1)

/* Rule 6: somebody looks at the frame while it waits; as long as it does, nobody else has it. */
static void look_at(aw__task *t, void *unused) {
    struct gate *g = (struct gate *)aw__task_frame(t);
    (void)unused;
    model_write(&g->polls, model_read(&g->polls) + 1);
    aw__load_relaxed(&t->status); /* a moment passes */
    model_write(&g->polls, model_read(&g->polls) + 1);
}
static void look(void) {
    aw__pool_each(rt->pool, look_at, NULL, NULL);
    aw_waker_drop(wakers[1]);
}
/* Rule 8: somebody wants to know when a reference goes. */
static void ask(void) {
    aw__word_ask(&task->word);
    aw_waker_drop(wakers[1]);
}
static void setup_looking(void) {
    setup_needing(1, false, 2, 0);
}

MODEL(who_looks_at_a_frame_is_alone_and_loses_no_wake, .setup = setup_looking,
      .threads = {work, wake_first, look}, .check = it_can_be_given_back, .stale = 1)
MODEL(who_looks_at_a_frame_loses_no_abort, .setup = setup_looking,
      .threads = {work, abort_and_drop, look, wake_first}, .check = it_may_have_been_cancelled,
      .preemptions = 1, .stale = 1)
MODEL(who_lets_go_of_it_may_be_asked_to_look, .setup = setup_two_wakers,
      .threads = {work, wake_first, drop, ask}, .check = its_output_was_taken_or_discarded,
      .preemptions = 1, .stale = 1)

/* ---- Mistakes --------------------------------------------------------------------------------- */

/* Two steps: a wake between them finds it running, and leaves it to who runs it. */
static void work_and_forget(void) {
    aw__task *t = aw__exchange(&queued, (aw__task *)NULL);
    aw_cx cx = {NULL, rt, NULL};
    aw__word_run(&t->word);
    if (aw_future_poll(aw__task_frame(t), &cx) == AW_PENDING) {
        bool again = aw__load_acquire(&t->word) & AW__W_NOTIFIED;
        aw__word_pend(&t->word);
        if (again) aw__pool_schedule(rt->pool, t, true);
        work();
    }
    aw__store_relaxed(&over, 1u);
}
/* It has woken itself, and is queued; but others take it for one that waits. */
static void work_and_let_go(void) {
    aw__task *t = aw__exchange(&queued, (aw__task *)NULL);
    aw__worker *w = &rt->pool->workers[0];
    if (poll(w, t, aw__pool_begin(t)) == AW_PENDING) {
        aw__word_pend(&t->word);
        aw__pool_schedule(rt->pool, t, true);
    }
}
/* Does not wait for the worker that wakes it. */
static void join_and_run(void) {
    aw_task_join_future *j = new_join();
    struct bell *b = model_alloc(sizeof *b);
    aw_waker waker = {&bell_type, b};
    if (poll_join(j, &waker) == AW_PENDING) aw__word_unjoin(&task->word);
    model_free(b);
}
/* The handle's reference goes before its mark. */
static void release_then_drop(void) {
    aw__pool_release(task);
    aw__word_drop_handle(&task->word);
}

MODEL_BROKEN(a_wake_between_two_steps_is_lost, "deadlock", .setup = setup_new,
             .threads = {work_and_forget, wake_first, wake_second})
MODEL_BROKEN(a_task_that_wakes_itself_and_stops_running_is_queued_twice, "t->next",
             .setup = setup_yielding, .threads = {work_and_let_go, wake_first})
MODEL_BROKEN(a_join_that_does_not_wait_for_the_worker_is_used_when_it_is_gone, "free",
             .setup = setup_waiting, .threads = {work, wake_first, join_and_run})
MODEL_BROKEN(a_task_without_a_reference_is_gone, "free", .setup = setup_waiting,
             .threads = {work, wake_first, release_then_drop})

/* ---- Orders ----------------------------------------------------------------------------------- */

static const struct model_harmless harmless[] = {
    {"aw__word_run", "aw__fetch_sub(", "release",
     "what a worker did until then is passed on when the poll is over"},
    {"aw__word_watch", "aw__cas(", "release", "who looks has changed nothing"},
    {"aw__word_watch", "aw__cas(", "failure", "it only decides whether to try again"},
    {"aw__word_unref_unasked", "aw__cas(", "failure", "it only decides whether to try again"},
    {"aw__word_answer", "aw__fetch_and(", "acquire", "a mark"},
    {"aw__word_answer", "aw__fetch_and(", "release", "a mark; the reference is taken after that"},
    {"aw__word_ask", "aw__fetch_or(", "acquire", "for who looks whether all sleep: see quiet.c"},
    {"aw__word_ask", "aw__fetch_or(", "release", "a mark"},
    {"aw__word_abort", "aw__cas(", "failure", "it only decides whether to try again"},
    {"aw__word_run_on", "aw__fetch_and(", "release",
     "what a worker did until then is passed on when the poll is over"},
    {"aw__word_pend", "aw__fetch_sub(", "acquire",
     "a wake that came meanwhile is acquired by the run that follows"},
    {"aw__word_unjoin", "aw__fetch_and(", "acquire",
     "when it is done the wait for the worker acquires what it left"},
    {"aw__word_unjoin", "aw__fetch_and(", "release",
     "a worker that does not see JOINER does not look at the join, nor at what was done to it"},
    {"aw__word_drop_handle", "aw__fetch_and(", "release",
     "who drops it before the end has not touched the output; after it, nobody else discards"},
    {0}};

/* Smaller ones: an order that is missing shows in them as well. */
static const struct model given_back = {.setup = setup_two_wakers,
                                        .threads = {work, wake_first, drop, drop_second},
                                        .check = its_output_was_taken_or_discarded,
                                        .preemptions = 1};
static const struct model seen = {
    .setup = setup_two_wakers,
    .threads = {work, wake_by_reference_then_drop, look_and_drop, drop_second},
    .check = its_output_was_taken_or_discarded,
    .preemptions = 1};
static const struct model aborted = {.setup = setup_two_wakers,
                                     .threads = {work, wake_first, abort_and_drop, drop_second},
                                     .check = it_may_have_been_cancelled,
                                     .preemptions = 1};
static const struct model joined = {.setup = setup_waiting,
                                    .threads = {work, wake_first, join_twice},
                                    .check = its_output_was_taken,
                                    .preemptions = 1};

MODEL_ORDERS(the_orders_of_the_word, "workers/word.h", harmless, &model_no_wake_is_lost,
             &model_a_task_is_polled_by_one_worker_and_then_by_another,
             &model_a_task_that_wakes_itself_is_woken_by_others_too,
             &model_a_task_that_wakes_itself_can_be_aborted,
             &model_a_task_that_nobody_wakes_can_be_aborted, &joined,
             &model_a_join_that_is_cancelled_is_left_alone, &given_back, &seen, &aborted,
             &model_who_looks_at_a_frame_is_alone_and_loses_no_wake,
             &model_who_lets_go_of_it_may_be_asked_to_look)

MODEL_ORDERS(the_orders_of_joins, "workers/join.c", model_all_matter,
             &model_a_join_may_change_its_waker, &model_a_join_may_follow_one_that_was_cancelled,
             &model_a_join_that_is_cancelled_is_left_alone)
