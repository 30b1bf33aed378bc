/* SPDX-License-Identifier: MIT
 *
 * Spawning: from inside, from plain threads, before block_on, into storage, during and after
 * shutdown; what a handle reports; and failed spawns, which release the future and join with the
 * reason. */
#include "support/tasks.h"

/* ---- Where from ------------------------------------------------------------------------------ */

AW_ASYNC(int, child, int n;) {
    AW_BEGIN;
    AW_RETURN(self->n + 1);
    AW_END;
}

AW_ASYNC(int, spawn_inside, struct child *task; aw_task_join_future join;) {
    AW_BEGIN;
    self->task = aw_spawn(AW_CALL(child, .n = 41));
    CHECK_EQ(aw_task_error(self->task), 0);
    CHECK(!aw_task_is_finished(self->task)); /* a spawn never polls */
    AW_AWAIT(self->join, aw_task_join(self->task));
    CHECK_EQ(self->join.out, 0);
    AW_RETURN(aw_task_take(self->task));
    AW_END;
}

TEST(a_task_spawned_from_inside_runs_and_gives_its_output) {
    ON_THIS_THREAD("the task does not run before the next await");
    CHECK_EQ(aw_run(AW_CALL(spawn_inside)), 42);
}

/* Each records when it ran. */
AW_ASYNC(int, in_order, int *clock; int *when;) {
    AW_BEGIN;
    *self->when = ++*self->clock;
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, spawn_many, int clock; int when[50]; struct rounds pause;) {
    AW_BEGIN;
    for (int i = 0; i < 50; i++)
        aw_task_drop(aw_spawn(AW_CALL(in_order, .clock = &self->clock, .when = &self->when[i])));
    AW_AWAIT(self->pause, rounds(1));
    for (int i = 0; i < 50; i++)
        CHECK_EQ(self->when[i], i + 1);
    AW_RETURN(0);
    AW_END;
}

TEST(spawned_tasks_run_first_come_first_served) {
    ON_THIS_THREAD("the order in which tasks run");
    CHECK_EQ(aw_run(AW_CALL(spawn_many)), 0);
}

TEST(tasks_spawned_before_block_on_run_in_the_order_of_their_spawns) {
    ON_THIS_THREAD("the order in which tasks run");
    enum { N = 100 };
    int clock = 0, when[N] = {0};
    struct in_order *h[N];
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    for (int i = 0; i < N; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(in_order, .clock = &clock, .when = &when[i]));
    CHECK_EQ(clock, 0); /* nothing runs before block_on */
    run_a_while(rt);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(when[i], i + 1);
        aw_task_drop(h[i]);
    }
    aw_runtime_free(rt);
}

/* Only the spawn wakes the runtime: the task answers through its own event. */
AW_ASYNC(int, announce, event *ran; pthread_t * by;) {
    AW_BEGIN;
    *self->by = pthread_self();
    event_post(self->ran);
    AW_RETURN(0);
    AW_END;
}

TEST(a_spawn_from_a_plain_thread_wakes_a_sleeping_runtime) {
    host h;
    event ran;
    pthread_t by;
    event_init(&ran);
    host_start(&h, NULL);
    for (int i = 0; i < test_scale(1000); i++) {
        aw_task_drop(aw_spawn_on(h.rt, AW_CALL(announce, .ran = &ran, .by = &by)));
        event_wait(&ran);
        CHECK(pthread_equal(by, h.thread));
    }
    host_stop(&h);
    aw_runtime_free(h.rt);
}

AW_ASYNC(int, enters_another, aw_runtime *here; aw_runtime * other; aw_runtime * previous;
         struct child * task; aw_task_join_future join;) {
    AW_BEGIN;
    self->previous = aw_enter(self->other);
    /* The running task's runtime takes precedence over an entered one. */
    CHECK_EQ(aw_runtime_current(), self->here);
    self->task = aw_spawn(AW_CALL(child, .n = 1));
    aw_leave(self->previous);
    AW_AWAIT(self->join, aw_task_join(self->task)); /* the other runtime does not run */
    AW_RETURN(aw_task_take(self->task));
    AW_END;
}

TEST(a_task_spawns_on_its_own_runtime_whatever_was_entered) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false),
               *other = runtime_new(NULL, NULL, NULL, false);
    CHECK_EQ(aw_block_on(rt, AW_CALL(enters_another, .here = rt, .other = other)), 2);
    aw_runtime_free(rt);
    aw_runtime_free(other);
}

static void *spawn_entered(void *arg) {
    aw_runtime *previous = aw_enter(arg);
    CHECK_EQ(previous, NULL);
    CHECK_EQ(aw_runtime_current(), arg);
    struct child *h = aw_spawn(AW_CALL(child, .n = 1));
    aw_leave(previous);
    CHECK_EQ(aw_runtime_current(), NULL);
    return h;
}

TEST(a_thread_that_entered_a_runtime_spawns_on_it) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    pthread_t t = thread_start(spawn_entered, rt);
    void *handle;
    CHECK_EQ(pthread_join(t, &handle), 0);
    struct child *h = handle;
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(aw_task_take(h), 2);
    aw_runtime_free(rt);
}

/* ---- What is spawned ------------------------------------------------------------------------- */

typedef AW_JOIN(struct child, struct child, aw_yield) pair_of_children;

TEST(a_group_can_be_spawned_and_keeps_its_outputs) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    pair_of_children *h = aw_spawn_on(rt, AW_JOIN_OF(pair_of_children, AW_CALL(child, .n = 1),
                                                     AW_CALL(child, .n = 2), aw_yield_now()));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(h->f0.out, 2);
    CHECK_EQ(h->f1.out, 3);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

/* ---- What a handle reports ------------------------------------------------------------------- */

TEST(a_handle_knows_name_and_location) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_runtime *previous = aw_enter(rt);
    struct child *plain = aw_spawn(AW_CALL(child, .n = 1));
    int line = __LINE__ + 1;
    struct child *named = aw_spawn_named("the named one", AW_CALL(child, .n = 1));
    aw_leave(previous);
    CHECK_STR(aw_task_name(plain), "child");
    CHECK_STR(aw_task_name(named), "the named one");
    CHECK_CONTAINS(aw_task_location(named)->file, "task_spawn.c");
    CHECK_EQ(aw_task_location(named)->line, line);
    CHECK_STR(aw_task_location(named)->name, "the named one");
    CHECK_EQ(aw_task_location(plain)->line, line - 2);
    CHECK_STR(aw_task_location(plain)->name, NULL);
    run_a_while(rt);
    CHECK_STR(aw_task_name(named), "the named one"); /* still */
    aw_task_drop(plain);
    aw_task_drop(named);
    aw_runtime_free(rt);
}

static void *spawn_some(void *arg) {
    enum { EACH = 50 };
    struct child **handles = calloc(EACH, sizeof *handles);
    for (int i = 0; i < EACH; i++)
        handles[i] = aw_spawn_on(arg, AW_CALL(child, .n = i));
    return handles;
}

AW_ASYNC(uint64_t, own_id, uint64_t id;) {
    AW_BEGIN;
    AW_RETURN(aw_current_task_id());
    AW_END;
}

AW_ASYNC(int, ids_inside, uint64_t *ids; struct own_id * task; aw_task_join_future join; int i;) {
    AW_BEGIN;
    CHECK_EQ(aw_current_task_id(), 0); /* the main future */
    for (self->i = 0; self->i < 50; self->i++) {
        self->task = aw_spawn(AW_CALL(own_id));
        self->ids[self->i] = aw_task_id(self->task);
        AW_AWAIT(self->join, aw_task_join(self->task));
        CHECK_EQ(self->task->out, self->ids[self->i]);
        aw_task_drop(self->task);
    }
    AW_RETURN(0);
    AW_END;
}

TEST(ids_are_unique_on_all_threads) {
    enum { THREADS = 4, EACH = 50, ALL = (THREADS + 1) * EACH };
    uint64_t ids[ALL];
    pthread_t t[THREADS];
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    CHECK_EQ(aw_current_task_id(), 0);
    for (int i = 0; i < THREADS; i++)
        t[i] = thread_start(spawn_some, rt);
    CHECK_EQ(aw_block_on(rt, AW_CALL(ids_inside, .ids = ids)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *got;
        CHECK_EQ(pthread_join(t[i], &got), 0);
        for (int k = 0; k < EACH; k++) {
            ids[(i + 1) * EACH + k] = aw_task_id(((struct child **)got)[k]);
            aw_task_drop(((struct child **)got)[k]);
        }
        free(got);
    }
    for (int i = 0; i < ALL; i++) {
        CHECK_NE(ids[i], 0);
        for (int k = 0; k < i; k++)
            CHECK_NE(ids[i], ids[k]);
    }
    aw_runtime_free(rt);
}

/* ---- Storage --------------------------------------------------------------------------------- */

TEST(storage_is_busy_until_the_task_its_handle_and_its_wakers_are_gone) {
    static AW_TASK_STORAGE(struct probe) storage;
    probe_state l = PROBE_STATE, other = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_runtime *previous = aw_enter(rt);
    CHECK(aw_task_storage_free(&storage));
    struct probe *h = aw_spawn_in(&storage, probe_of(&l));
    CHECK_EQ(aw_task_error(h), 0);
    CHECK_EQ(h, &storage.frame); /* really in the storage */

    struct probe *busy = aw_spawn_in(&storage, probe_of(&other));
    CHECK_EQ(aw_task_error(busy), -EBUSY);
    CHECK_EQ(other.cancels, 1); /* released, never run */
    CHECK_EQ(other.polls, 0);
    CHECK_EQ(JOIN_STATUS(rt, busy), -EBUSY);

    run_a_while(rt);
    aw_waker late = aw_waker_clone(&l.waker);
    probe_finish(&l);
    CHECK(!aw_task_storage_free(&storage)); /* running */
    run_a_while(rt);
    CHECK_EQ(l.polls, 2);
    CHECK(!aw_task_storage_free(&storage)); /* handle and waker */
    aw_task_drop(h);
    run_a_while(rt);
    CHECK(!aw_task_storage_free(&storage)); /* waker */
    aw_waker_drop(late);
    run_a_while(rt);
    CHECK(aw_task_storage_free(&storage));

    l = (probe_state)PROBE_STATE;
    l.answer = AW_READY;
    h = aw_spawn_in(&storage, probe_of(&l));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(aw_task_take(h), 101);
    run_a_while(rt);
    CHECK(aw_task_storage_free(&storage));
    aw_leave(previous);
    aw_runtime_free(rt);
}

AW_ASYNC(int, reuse, int rounds_left; AW_TASK_STORAGE(struct child) storage; struct child * task;
         aw_task_join_future join; int sum;) {
    AW_BEGIN;
    for (; self->rounds_left > 0; self->rounds_left--) {
        CHECK(aw_task_storage_free(&self->storage));
        self->task = aw_spawn_in(&self->storage, AW_CALL(child, .n = self->rounds_left));
        AW_AWAIT(self->join, aw_task_join(self->task));
        CHECK_EQ(self->join.out, 0);
        self->sum += aw_task_take(self->task);
    }
    AW_RETURN(self->sum);
    AW_END;
}

TEST(storage_may_be_used_again_and_again) {
    ON_THIS_THREAD("a worker may still be leaving the task when its join reports");
    CHECK_EQ(aw_run(AW_CALL(reuse, .rounds_left = 1000)), 1000 * 1001 / 2 + 1000);
}

/* ---- Spawns that fail ------------------------------------------------------------------------ */

/* A future that owns its argument from the spawn on. */
AW_ASYNC(int, owner, int *owned; int *finals;) {
    AW_BEGIN;
    AW_RETURN(*self->owned);
    AW_FINALLY;
    free(self->owned);
    ++*self->finals;
    AW_END;
}

static struct owner owner_of(int *finals) {
    int *owned = malloc(sizeof *owned);
    *owned = 5;
    return AW_CALL(owner, .owned = owned, .finals = finals);
}

static void check_failed(struct owner *h, int error) {
    CHECK_EQ(aw_task_error(h), error);
    CHECK(aw_task_is_finished(h));
    CHECK_EQ(aw_task_id(h), 0);
    CHECK_EQ(aw_task_location(h), NULL);
    CHECK(aw_task_name(h) != NULL);
    aw_task_abort(h);
    aw_task_drop(h);
}

TEST(a_spawn_without_memory_releases_the_future_and_says_ENOMEM) {
    memory m;
    int finals = 0;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    m.refuse = true;
    check_failed(aw_spawn_on(rt, owner_of(&finals)), -ENOMEM);
    CHECK_EQ(finals, 1);
    CHECK_EQ(aw_runtime_task_count(rt), 0);
    m.refuse = false;
    struct owner *h = aw_spawn_on(rt, owner_of(&finals));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(aw_task_take(h), 5);
    aw_runtime_free(rt);
    CHECK_EQ(finals, 2);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST(a_future_of_an_impossible_size_is_refused) {
    static const aw_location location = {__FILE__, __LINE__, NULL};
    int finals = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct owner f = owner_of(&finals);
    aw_future *h = aw_spawn_future(rt, &f.future, (size_t)UINT32_MAX + 1, &location, NULL);
    check_failed((struct owner *)(void *)h, -ENOMEM);
    CHECK_EQ(finals, 1);
    aw_runtime_free(rt);
}

TEST(a_spawn_outside_a_runtime_releases_the_future_and_says_so) {
    kept_log log = KEPT_LOG;
    int finals = 0;
    aw_set_log(keep_log, &log);
    check_failed(aw_spawn(owner_of(&finals)), -ENXIO);
    CHECK_EQ(finals, 1);
    CHECK_CONTAINS(log.text, "task_spawn.c");
    CHECK_CONTAINS(log.text, "'owner'");
    CHECK_CONTAINS(log.text, "outside a runtime");
}

/* Spawns in its cleanup, while the runtime shuts down. */
AW_ASYNC(int, spawns_at_the_end, int *finals; struct owner * *handle; aw_never never;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    *self->handle = aw_spawn(owner_of(self->finals));
    AW_END;
}

TEST(a_spawn_during_the_end_of_the_runtime_resolves_as_cancelled) {
    memory m;
    int finals = 0;
    struct owner *late = NULL;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(spawns_at_the_end, .finals = &finals, .handle = &late)));
    run_a_while(rt);
    aw_runtime_free(rt);
    CHECK_EQ(finals, 1);
    CHECK_EQ(aw_run(aw_task_join(late)), -ECANCELED);
    check_failed(late, -ECANCELED);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST(a_spawn_after_the_end_of_the_runtime_resolves_as_cancelled) {
    memory m;
    int finals = 0;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    struct owner *keeps_it = aw_spawn_on(rt, owner_of(&finals));
    aw_runtime_free(rt); /* a handle remains, and stays valid */
    CHECK_EQ(finals, 1);
    check_failed(aw_spawn_on(rt, owner_of(&finals)), -ECANCELED);
    CHECK_EQ(finals, 2);
    aw_task_drop(keeps_it);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* A spawn from another thread that is still in the inbox when the runtime ends. */
TEST(a_task_that_is_still_in_the_inbox_is_cancelled_by_the_end) {
    ON_THIS_THREAD("nothing runs before block_on");
    memory m;
    probe_state l = PROBE_STATE;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    aw_runtime_free(rt);
    CHECK_EQ(l.polls, 0);
    CHECK_EQ(l.cancels, 1);
    CHECK(aw_task_is_finished(h));
    CHECK_EQ(aw_run(aw_task_join(h)), -ECANCELED);
    aw_task_drop(h);
    CHECK_EQ(memory_in_use(&m), 0);
}
