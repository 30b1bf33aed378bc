/* SPDX-License-Identifier: MIT
 *
 * Wakers and handles move between threads, and outlive tasks and runtimes. They stay valid,
 * waking does nothing any more, and dropping the last one frees the memory. */
#include "support/tasks.h"

/* ---- References on other threads ------------------------------------------------------------- */

/* Clones or drops wakers, on the calling thread. */
typedef struct hands {
    aw_waker from, held[8];
    int count;
} hands;

enum action { CLONE, DROP, WAKE, WAKE_BY_REF, ACTIONS };

static void act(hands *h, enum action a) {
    if (a == CLONE) {
        CHECK_LT(h->count, 8);
        h->held[h->count] = aw_waker_clone(h->count ? &h->held[h->count - 1] : &h->from);
        h->count++;
        return;
    }
    CHECK_GT(h->count, 0);
    if (a == WAKE_BY_REF) {
        aw_waker_wake_by_ref(&h->held[h->count - 1]);
        return;
    }
    aw_waker w = h->held[--h->count];
    if (a == WAKE)
        aw_waker_wake(w);
    else
        aw_waker_drop(w);
}

/* One action at a time, inside a task on the owner's thread or on another thread. */
struct order {
    hands *hands;
    enum action action;
};

static void *act_on_a_thread(void *arg) {
    struct order *o = arg;
    act(o->hands, o->action);
    return NULL;
}

static aw_poll act_inside(void *arg, aw_cx *cx, int *out) {
    (void)cx;
    *out = 0;
    act_on_a_thread(arg);
    return AW_READY;
}

static void act_there(aw_runtime *rt, hands *h, enum action action, bool inside) {
    struct order o = {h, action};
    if (inside)
        CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(act_inside, &o)), 0);
    else
        on_a_thread(act_on_a_thread, &o);
}

/* All else happens on the runtime's thread, so that no request of another thread settles the
 * count as a side effect. */
struct ending {
    probe_state *state;
    struct probe *handle;
};

static aw_poll end_inside(void *arg, aw_cx *cx, int *out) {
    struct ending *e = arg;
    (void)cx;
    (void)out;
    if (e->state) probe_finish(e->state);
    if (e->handle) aw_task_drop(e->handle);
    return AW_READY;
}

static void end_task(aw_runtime *rt, probe_state *l, struct probe *handle) {
    struct ending e = {l, handle};
    CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(end_inside, &e)), 0);
    run_a_while(rt);
}

static const char *side(int inside) {
    return inside ? "inside" : "outside";
}

/* Whichever threads clone and drop the references, the task is freed with the last one, not
 * earlier. */
TEST(a_reference_taken_on_one_thread_may_be_dropped_on_another) {
    ON_THIS_THREAD("it counts what a runtime allocates; see workers_outlive.c");
    for (int where = 0; where < 64; where++) {
        memory m;
        probe_state l = PROBE_STATE;
        hands h = {.count = 0};
        memory_init(&m);
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        struct probe *task = aw_spawn_on(rt, probe_of(&l));
        run_a_while(rt);
        h.from = l.waker;
        act_there(rt, &h, CLONE, where & 1);
        act_there(rt, &h, CLONE, where & 2);
        end_task(rt, &l, task); /* the probe's own clone is dropped with it */
        CHECK_EQ(l.polls, 2);
        CHECK_EQ(memory_in_use(&m), 2); /* runtime and task */
        act_there(rt, &h, where & 4 ? WAKE : DROP, where & 8);
        run_a_while(rt);
        CHECK_EQ(memory_in_use(&m), 2);
        act_there(rt, &h, where & 16 ? WAKE : DROP, where & 32);
        run_a_while(rt);
        if (memory_in_use(&m) != 1)
            FAIL("cloned %s and %s, dropped %s and %s: the task is still there", side(where & 1),
                 side(where & 2), side(where & 8), side(where & 32));
        CHECK_EQ(l.polls, 2);
        aw_runtime_free(rt);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* The same with the references dropped before the task ends: its end frees it. */
TEST(a_task_with_wakers_on_other_threads_is_freed_by_its_end) {
    ON_THIS_THREAD("it counts what a runtime allocates; see workers_outlive.c");
    for (int where = 0; where < 32; where++) {
        memory m;
        probe_state l = PROBE_STATE;
        hands h = {.count = 0};
        memory_init(&m);
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        struct probe *task = aw_spawn_on(rt, probe_of(&l));
        run_a_while(rt);
        if (where & 16) {
            end_task(rt, NULL, task); /* detached from the start */
            task = NULL;
        }
        h.from = l.waker;
        act_there(rt, &h, CLONE, where & 1);
        act_there(rt, &h, CLONE, where & 2);
        act_there(rt, &h, DROP, where & 4);
        act_there(rt, &h, DROP, where & 8);
        run_a_while(rt);
        CHECK_EQ(memory_in_use(&m), 2);
        end_task(rt, &l, task);
        if (memory_in_use(&m) != 1)
            FAIL("cloned %s and %s, dropped %s and %s: the task is still there", side(where & 1),
                 side(where & 2), side(where & 4), side(where & 8));
        aw_runtime_free(rt);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* Wakers of the main future belong to the runtime itself. */
AW_ASYNC(int, lends_waker, hands *hands; struct rounds pause;) {
    AW_BEGIN;
    self->hands->from = *aw_cx_waker(cx);
    act(self->hands, CLONE);
    AW_AWAIT(self->pause, rounds(1));
    AW_RETURN(0);
    AW_END;
}

TEST(a_waker_of_the_main_future_keeps_the_runtime_until_it_goes) {
    ON_THIS_THREAD("it counts what a runtime allocates; see workers_outlive.c");
    for (int where = 0; where < 16; where++) {
        memory m;
        hands h = {.count = 0};
        memory_init(&m);
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        CHECK_EQ(aw_block_on(rt, AW_CALL(lends_waker, .hands = &h)), 0);
        if (where & 1) {
            act_there(rt, &h, CLONE, false);
            act_there(rt, &h, where & 2 ? WAKE : DROP, true);
        }
        if (where & 4) act_there(rt, &h, CLONE, where & 8);
        run_a_while(rt);
        aw_runtime_free(rt);
        while (h.count) {
            CHECK_EQ(memory_in_use(&m), 1);
            act(&h, WAKE_BY_REF);
            act(&h, where & 2 ? WAKE : DROP);
        }
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* ---- After the end of the runtime ------------------------------------------------------------ */

struct leftovers {
    aw_waker waker;
    int clones;
};

static void *use_leftovers(void *arg) {
    struct leftovers *l = arg;
    for (int i = 0; i < l->clones; i++) {
        aw_waker a = aw_waker_clone(&l->waker), b = aw_waker_clone(&a);
        aw_waker_wake_by_ref(&l->waker);
        aw_waker_wake(b);
        aw_waker_drop(a);
    }
    aw_waker_wake(l->waker);
    return NULL;
}

/* Threads use and drop wakers of finished and cancelled tasks of a freed runtime, all at once.
 * The last drop frees everything. */
TEST(wakers_used_by_threads_after_the_runtime_has_ended_do_nothing_and_free_it) {
    ON_THIS_THREAD("it counts what a runtime allocates; see workers_outlive.c");
    enum { THREADS = 4 };
    for (int round = 0; round < test_scale(100); round++) {
        memory m;
        probe_state l[2] = {PROBE_STATE, PROBE_STATE};
        struct leftovers left_over[THREADS];
        pthread_t t[THREADS];
        memory_init(&m);
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        struct probe *a = aw_spawn_on(rt, probe_of(&l[0])), *b = aw_spawn_on(rt, probe_of(&l[1]));
        run_a_while(rt);
        for (int i = 0; i < THREADS; i++)
            left_over[i] = (struct leftovers){aw_waker_clone(&l[i % 2].waker), test_scale(100)};
        probe_finish(&l[0]);
        run_a_while(rt);
        aw_task_drop(a);
        aw_task_drop(b);
        aw_runtime_free(rt);
        CHECK_EQ(l[0].polls, 2);
        CHECK_EQ(l[1].cancels, 1);
        CHECK_EQ(memory_in_use(&m), 3);
        for (int i = 0; i < THREADS; i++)
            t[i] = thread_start(use_leftovers, &left_over[i]);
        for (int i = 0; i < THREADS; i++)
            thread_end(t[i]);
        CHECK_EQ(memory_in_use(&m), 0);
        CHECK_EQ(l[0].polls + l[1].polls, 3);
        CHECK_EQ(l[0].discards, 1);
    }
}

static void *drop_probe(void *handle) {
    aw_task_drop((struct probe *)handle);
    return NULL;
}

TEST(handles_answer_after_the_runtime_has_ended_and_are_dropped_by_any_thread) {
    ON_THIS_THREAD("nothing runs before block_on");
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        memory m;
        probe_state done = PROBE_STATE, cut = PROBE_STATE, unseen = PROBE_STATE;
        memory_init(&m);
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        struct probe *a = aw_spawn_on(rt, probe_of(&done)), *b = aw_spawn_on(rt, probe_of(&cut));
        run_a_while(rt);
        probe_finish(&done);
        run_a_while(rt);
        struct probe *c = aw_spawn_on(rt, probe_of(&unseen));
        uint64_t id = aw_task_id(a);
        aw_runtime_free(rt);

        CHECK(aw_task_is_finished(a) && aw_task_is_finished(b) && aw_task_is_finished(c));
        CHECK_EQ(aw_task_id(a), id);
        CHECK_STR(aw_task_name(a), "probe");
        CHECK_CONTAINS(aw_task_location(b)->file, "runtime_outlive.c");
        CHECK_EQ(aw_task_error(c), 0);
        aw_task_abort(a); /* too late, and harmless */
        aw_task_abort(b);
        CHECK_EQ(aw_run(aw_task_join(b)), -ECANCELED);
        CHECK_EQ(done.discards, 0);
        if (elsewhere) {
            on_a_thread(drop_probe, a);
            on_a_thread(drop_probe, b);
            on_a_thread(drop_probe, c);
        } else {
            aw_task_drop(a);
            aw_task_drop(b);
            aw_task_drop(c);
        }
        CHECK_EQ(done.discards, 1);
        CHECK_EQ(cut.discards + unseen.discards, 0);
        CHECK_EQ(cut.cancels, 1);
        CHECK_EQ(unseen.cancels, 1);
        CHECK_EQ(unseen.polls, 0);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

TEST(an_output_is_taken_after_the_runtime_has_ended) {
    probe_state l = PROBE_STATE;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_runtime_free(rt);
    CHECK_EQ(aw_run(aw_task_join(h)), 0);
    CHECK_EQ(aw_task_take(h), 101);
    CHECK_EQ(l.discards, 0);
}

/* A task that keeps a waker of itself in its own frame drops it when it ends. */
AW_ASYNC(int, keeps_own_waker, aw_waker own; aw_never never;) {
    AW_BEGIN;
    self->own = aw_waker_clone(aw_cx_waker(cx));
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    if (self->own.type) aw_waker_drop(self->own);
    AW_END;
}

TEST(a_task_that_keeps_its_own_waker_is_freed_with_the_runtime) {
    memory m;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(keeps_own_waker)));
    run_a_while(rt);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* ---- Storage --------------------------------------------------------------------------------- */

TEST(task_storage_is_free_when_the_last_reference_goes_after_the_end) {
    static AW_TASK_STORAGE(struct probe) storage;
    static aw_runtime_storage runtime_storage;
    probe_state l = PROBE_STATE;
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.keep_tasks = true;
    CHECK_EQ(aw_runtime_new_in(&rt, &runtime_storage, sizeof runtime_storage, &o), 0);
    aw_runtime *previous = aw_enter(rt);
    struct probe *h = aw_spawn_in(&storage, probe_of(&l));
    aw_leave(previous);
    run_a_while(rt);
    aw_waker w = aw_waker_clone(&l.waker);
    aw_runtime_free(rt);
    CHECK(!aw_task_storage_free(&storage));
    aw_task_drop(h);
    CHECK(!aw_task_storage_free(&storage));
    struct leftovers left_over = {w, 3};
    on_a_thread(use_leftovers, &left_over);
    CHECK(aw_task_storage_free(&storage));
}
