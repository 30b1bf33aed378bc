/* SPDX-License-Identifier: MIT
 *
 * sched/multi/task_state.h under every schedule, with the real sched/multi/pool_task.c and
 * pool_join.c: a task that is woken, aborted, joined and dropped by other threads while workers run
 * it. It is queued at most once, no wake is lost, its output is taken or discarded once, and it is
 * freed once, after its last use. The queue holds one task, and the rest of the runtime is only
 * what a task needs. */
#include "support/model.h"
#include "support/model_park.h"

#include <awake.h>

#define AW__SHARDS 1

/* Replace the library's. */
#define aw__pool_check_quiescence modelled_check_quiescence
#define aw__lock_slow             modelled_lock_slow
#define aw__pool_schedule         modelled_schedule
#define aw__magazine_alloc        modelled_magazine_alloc
#define aw__magazine_free         modelled_magazine_free
#define aw__slab_in_storage       modelled_slab_in_storage
#define aw__pool_free_memory      modelled_free_memory
#define aw__context               modelled_thread

#define sched_yield() model_yield()
#include "os/lock.c"
#undef sched_yield

#include "sched/multi/pool_join.c"
#include "sched/multi/pool_task.c"

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
static uint32_t late_bell; /* woken by a join when no lock is held; never freed */

/* ---- What a task needs ----------------------------------------------------------------------- */

aw__task *aw__magazine_alloc(aw__pool *p, size_t frame_size) {
    aw__slab *r = model_alloc(sizeof(aw__slab) + sizeof(aw__task) + frame_size);
    aw__task *t = (aw__task *)(void *)(r + 1);
    r->rt = p->rt;
    t->slab_offset = sizeof(aw__slab) / AW__SLAB_STEP;
    return t;
}
aw__task *aw__slab_in_storage(aw_runtime *of, void *storage) {
    (void)of, (void)storage;
    return NULL;
}
void aw__magazine_free(aw__pool *p, aw__task *t) {
    (void)p;
    model_free(aw__task_slab(t));
}
void aw__pool_free_memory(aw_runtime *gone) {
    model_free(gone->pool);
    model_free(gone);
}

/* Links the task, like every queue. */
void aw__pool_schedule(aw__pool *p, aw__task *t, bool to_ring) {
    (void)to_ring;
    (void)aw__load_relaxed(&t->pin);
    model_write(&t->next, NULL);
    const aw__task *before = aw__exchange(&queued, t);
    model_check(!before);
    (void)aw__load_relaxed(&p->stop); /* like a notification: the pool must still exist */
}

/* The pool must still exist. */
void aw__pool_check_quiescence(aw__pool *p) {
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
    static const aw_location location = {"task_state.c", 1, NULL};
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
    task = aw__task_of(aw__pool_spawn(rt, 0, &g.future, sizeof g, &location, NULL, NULL));
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

/* ---- Workers: like run_task ------------------------------------------------------------------ */

static bool is_queued_or_over(void *unused) {
    (void)unused;
    return queued || over;
}

static aw_poll poll(aw__worker *w, aw__task *t, bool cancel) {
    aw_waker waker = {&aw__pool_waker_type, t};
    aw_cx cx = {&waker, rt, NULL};
    aw_future *f = aw__task_frame(t);
    w->self_woken = false;
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
        } else if (aw__pool_pause(t, w->self_woken)) {
            aw__pool_schedule(rt->pool, t, true);
        }
    }
}

/* ---- Threads that wake ----------------------------------------------------------------------- */

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

/* ---- The owner of the handle ----------------------------------------------------------------- */

/* What a join wakes. It is freed as soon as the join has ended. */
struct bell {
    uint32_t word;
};

static void ring_bell(void *data) {
    model_unpark(&((struct bell *)data)->word);
}
static aw_waker no_clone(void *data) {
    (void)data;
    model_fail("a join must wake under the lock");
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
/* The join has reported: from now on it, and what it woke, must not be accessed. */
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
/* The cancel sees what this thread did before. */
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
/* Polled with one waker and then with another: the first may be freed then. */
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
    taken = before || taken; /* the second join may see the output, too */
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

/* ---- Promises -------------------------------------------------------------------------------- */

static void it_has_ended(void) {
    model_check(ended == 1 && !queued);
    model_check(rt->pool->live == 0 && rt->pool->allocated == 1);
    aw__pool_free_memory(rt);
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
static void it_can_be_dropped(void) {
    aw__pool_drop(task);
    its_output_was_taken_or_discarded();
}
static void it_may_have_been_cancelled(void) {
    model_check(taken + discarded <= 1);
    it_has_ended();
}

MODEL(no_wake_is_lost, .setup = setup_new, .threads = {work, wake_first, wake_second},
      .check = it_can_be_dropped)
MODEL(a_task_may_go_on_on_another_worker, .setup = setup_new,
      .threads = {work, work, wake_first, wake_second}, .check = it_can_be_dropped, .stale = 1)
MODEL(a_task_is_polled_by_one_worker_and_then_by_another, .setup = setup_one_waker,
      .threads = {work, work, wake_first}, .check = it_can_be_dropped)
MODEL(a_task_that_is_never_woken_can_be_aborted, .setup = setup_no_waker,
      .threads = {work, work, abort_and_drop}, .check = it_may_have_been_cancelled)
MODEL(a_task_that_wakes_itself_is_woken_by_others_too, .setup = setup_yielding,
      .threads = {work, work, wake_first}, .check = it_can_be_dropped)
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
MODEL(an_output_that_is_not_taken_is_discarded_once, .setup = setup_two_wakers,
      .threads = {work, wake_first, drop, drop_second}, .check = its_output_was_taken_or_discarded,
      .stale = 1)
MODEL(a_thread_that_sees_done_sees_the_output, .setup = setup_two_wakers,
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

/* Rule 6: a thread inspects the frame of a waiting task, and owns it meanwhile. */
static void look_at(const aw__task_view *v, void *unused) {
    struct gate *g = (struct gate *)(uintptr_t)v->future;
    (void)unused;
    if (!g) return;
    model_write(&g->polls, model_read(&g->polls) + 1);
    aw__load_relaxed(&v->task->status); /* lets other threads run */
    model_write(&g->polls, model_read(&g->polls) + 1);
}
static void look(void) {
    aw__pool_each(rt->pool, look_at, NULL);
    aw_waker_drop(wakers[1]);
}
/* Rule 8: a thread needs to know when a reference is dropped. */
static void request_check(void) {
    aw__word_request_check(&task->word);
    aw_waker_drop(wakers[1]);
}
static void setup_looking(void) {
    setup_needing(1, false, 2, 0);
}

MODEL(a_thread_that_inspects_a_frame_is_alone_and_loses_no_wake, .setup = setup_looking,
      .threads = {work, wake_first, look}, .check = it_can_be_dropped, .stale = 1)
MODEL(a_thread_that_inspects_a_frame_loses_no_abort, .setup = setup_looking,
      .threads = {work, abort_and_drop, look, wake_first}, .check = it_may_have_been_cancelled,
      .preemptions = 1, .stale = 1)
MODEL(dropping_a_reference_may_require_a_check, .setup = setup_two_wakers,
      .threads = {work, wake_first, drop, request_check},
      .check = its_output_was_taken_or_discarded, .preemptions = 1, .stale = 1)

/* ---- Mistakes -------------------------------------------------------------------------------- */

/* Two steps: a wake between them finds the task RUNNING, and leaves it to the worker. */
static void work_and_lose_a_wake(void) {
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
/* The task has woken itself, and is queued, but its state says that it waits. */
static void work_and_pend(void) {
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
/* Drops the reference of the handle before its bit. */
static void release_then_drop(void) {
    aw__pool_task_unref(task);
    aw__word_drop_handle(&task->word);
}

MODEL_BROKEN(a_wake_between_two_steps_is_lost, "deadlock", .setup = setup_new,
             .threads = {work_and_lose_a_wake, wake_first, wake_second})
MODEL_BROKEN(a_task_that_wakes_itself_and_stops_running_is_queued_twice, "t->next",
             .setup = setup_yielding, .threads = {work_and_pend, wake_first})
MODEL_BROKEN(a_join_that_does_not_wait_for_the_worker_is_used_when_it_is_gone, "free",
             .setup = setup_waiting, .threads = {work, wake_first, join_and_run})
MODEL_BROKEN(a_task_without_a_reference_is_gone, "free", .setup = setup_waiting,
             .threads = {work, wake_first, release_then_drop})

/* ---- Orders ---------------------------------------------------------------------------------- */

static const struct model_harmless harmless[] = {
    {"aw__word_run", "aw__fetch_sub(", "release",
     "what a worker did until then is passed on when the poll is over"},
    {"aw__word_watch", "aw__cas(", "release", "the inspecting thread has changed nothing"},
    {"aw__word_watch", "aw__cas(", "failure", "it only decides whether to try again"},
    {"aw__word_try_unref", "aw__cas(", "failure", "it only decides whether to try again"},
    {"aw__word_clear_check", "aw__fetch_and(", "acquire", "a bit"},
    {"aw__word_clear_check", "aw__fetch_and(", "release",
     "a bit; the reference is taken after that"},
    {"aw__word_request_check", "aw__fetch_or(", "acquire",
     "for the check for quiescence: see quiescence.c"},
    {"aw__word_request_check", "aw__fetch_or(", "release", "a bit"},
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
     "before the end the output has not been accessed; after it, no other thread discards"},
    {0}};

/* Smaller models: a missing order shows in them, too. */
static const struct model dropped = {.setup = setup_two_wakers,
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

MODEL_ORDERS(the_orders_of_the_task_state, "sched/multi/task_state.h", harmless,
             &model_no_wake_is_lost, &model_a_task_is_polled_by_one_worker_and_then_by_another,
             &model_a_task_that_wakes_itself_is_woken_by_others_too,
             &model_a_task_that_wakes_itself_can_be_aborted,
             &model_a_task_that_is_never_woken_can_be_aborted, &joined,
             &model_a_join_that_is_cancelled_is_left_alone, &dropped, &seen, &aborted,
             &model_a_thread_that_inspects_a_frame_is_alone_and_loses_no_wake,
             &model_dropping_a_reference_may_require_a_check)

MODEL_ORDERS(the_orders_of_joins, "sched/multi/pool_join.c", model_all_matter,
             &model_a_join_may_change_its_waker, &model_a_join_may_follow_one_that_was_cancelled,
             &model_a_join_that_is_cancelled_is_left_alone)
