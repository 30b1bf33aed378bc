/* SPDX-License-Identifier: MIT
 *
 * How workers share the work: no task is lost, run twice or starved, and no worker runs when
 * there is nothing to do. */
#include <dirent.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "support/workers.h"

/* ---- Nothing lost, nothing twice ------------------------------------------------------------- */

AW_ASYNC(int, mark, uint32_t *seen;) {
    AW_BEGIN;
    ADD(*self->seen, 1);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, spawns_many, uint32_t *seen; int count;) {
    AW_BEGIN;
    for (int i = 0; i < self->count; i++)
        aw_task_drop(aw_spawn(AW_CALL(mark, .seen = &self->seen[i])));
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(an_overfull_queue_loses_and_doubles_nothing) {
    enum { MOST = 20000 };
    static uint32_t seen[MOST];
    int count = test_scale(MOST);
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(spawns_many, .seen = seen, .count = count)), 0);
    WAIT_UNTIL(aw_runtime_task_count(rt) == 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(LOAD(seen[i]), 1);
    CHECK_EQ(COUNTER_SUM(rt, polls), (uint64_t)count + 1);
    if (workers == 1) CHECK_GT(COUNTER_SUM(rt, overflows), 0); /* no other worker empties it */
    workers_end(rt, &m);
}

/* Every worker fills its queue while the others steal from it. */
ON_WORKERS(queues_that_overflow_side_by_side_lose_and_double_nothing) {
    enum { TASKS = 16, EACH = 2000 };
    static uint32_t seen[TASKS * EACH];
    int each = test_scale(EACH);
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int i = 0; i < TASKS; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(spawns_many, .seen = seen + i * EACH, .count = each)));
    WAIT_UNTIL(aw_runtime_task_count(rt) == 0);
    for (int i = 0; i < TASKS; i++)
        for (int k = 0; k < each; k++)
            CHECK_EQ(LOAD(seen[i * EACH + k]), 1);
    workers_end(rt, &m);
}

typedef struct spawning {
    aw_runtime *rt;
    uint32_t seen[8][500];
    mailbox box[8];
} spawning;

static void spawn_from_thread(void *arg, int index, uint64_t *random) {
    spawning *s = arg;
    for (int i = 0; i < test_scale(500); i++) {
        aw_task_drop(aw_spawn_on(s->rt, AW_CALL(mark, .seen = &s->seen[index][i])));
        mailbox_send(&s->box[test_random(random) % 8], 1, i % 2);
    }
}

ON_WORKERS(spawns_and_wakes_of_eight_threads_all_arrive) {
    static spawning s;
    uint64_t random = test_seed();
    memory m;
    thread_group threads;
    struct reader *readers[8];
    s.rt = workers_new(workers, &m, NULL);
    for (int i = 0; i < 8; i++) {
        mailbox_init(&s.box[i], UINT32_MAX);
        readers[i] = aw_spawn_on(s.rt, read_from(&s.box[i]));
    }
    thread_group_create(&threads, 8, &random, spawn_from_thread, &s);
    thread_group_go(&threads);
    thread_group_join(&threads);
    WAIT_UNTIL(aw_runtime_task_count(s.rt) == 8);
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < test_scale(500); k++)
            CHECK_EQ(LOAD(s.seen[i][k]), 1);
    uint32_t had = 0;
    for (int i = 0; i < 8; i++) { /* wait until it was polled after the last letter */
        for (uint32_t letters = 1; letters;) {
            pthread_mutex_lock(&s.box[i].lock);
            letters = s.box[i].letters;
            had += letters ? 0 : s.box[i].had;
            pthread_mutex_unlock(&s.box[i].lock);
            if (letters) sched_yield();
        }
    }
    CHECK_EQ(had, 8 * (uint32_t)test_scale(500));
    for (int i = 0; i < 8; i++) {
        aw_task_abort(readers[i]);
        CHECK_EQ(JOIN_STATUS(s.rt, readers[i]), -ECANCELED);
        aw_task_drop(readers[i]);
    }
    workers_end(s.rt, &m);
}

/* ---- No starvation --------------------------------------------------------------------------- */

static uint32_t stopped;

/* Each spawns the next one, which is therefore always ready. */
AW_ASYNC(int, chain, aw_yield pause;) {
    AW_BEGIN;
    if (!LOAD(stopped)) aw_task_drop(aw_spawn(AW_CALL(chain)));
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, yields, int n; int i;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->n; self->i++)
        AW_YIELD;
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(a_chain_that_respawns_itself_lets_others_finish) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(chain)));
    CHECK_EQ(aw_block_on(rt, AW_CALL(yields, .n = 100)), 0);
    CHECK_EQ(RUN(rt, AW_CALL(yields, .n = 100)), 0); /* a task, spawned from outside */
    CHECK_EQ(RUN(rt, aw_sleep_for(AW_MSEC(1))), 0);  /* a timer */
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1))), 0);
    STORE(stopped, 1);
    WAIT_UNTIL(aw_runtime_task_count(rt) == 0);
    workers_end(rt, NULL);
}

/* No worker is woken for it, so it is not stolen. */
TEST(a_lone_task_that_yields_stays_where_it_is) {
    enum { YIELDS = 10000 };
    aw_runtime *rt = workers_new(2, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(yields, .n = YIELDS)), 0);
    CHECK_LT(COUNTER_SUM(rt, steals), YIELDS / 10);
    workers_end(rt, NULL);
}

typedef struct table {
    aw_notify side[2];
} table;

AW_ASYNC(int, player, table *table; int side; aw_notified wait;) {
    AW_BEGIN;
    while (!LOAD(stopped)) {
        aw_notify_one(&self->table->side[1 - self->side]);
        AW_AWAIT(self->wait, aw_notify_wait(&self->table->side[self->side]));
    }
    aw_notify_one(&self->table->side[1 - self->side]);
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(ping_pong_pairs_do_not_starve_a_new_task_that_yields) {
    enum { PAIRS = 100 };
    static table tables[PAIRS];
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < 2 * PAIRS; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(player, .table = &tables[i / 2], .side = i % 2)));
    CHECK_EQ(RUN(rt, rounds(test_scale(200))), 0);
    STORE(stopped, 1);
    WAIT_UNTIL(aw_runtime_task_count(rt) == 0);
    workers_end(rt, NULL);
}

AW_ASYNC(int, yields_until_stopped, uint64_t *polls; aw_yield pause;) {
    AW_BEGIN;
    while (!LOAD(stopped)) {
        ADD(*self->polls, 1);
        AW_AWAIT(self->pause, aw_yield_now());
    }
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(tasks_that_only_yield_let_timers_and_other_threads_through) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    uint64_t polls = 0;
    for (uint32_t i = 0; i < 2 * workers; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(yields_until_stopped, .polls = &polls)));
    WAIT_UNTIL(LOAD(polls) > 10 * workers);
    CHECK_EQ(RUN(rt, aw_sleep_for(AW_MSEC(2))), 0);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(2))), 0);
    gate g = GATE;
    struct through *h = aw_spawn_on(rt, through(&g));
    gate_wait(&g, 1);
    gate_open(&g);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    STORE(stopped, 1);
    workers_end(rt, NULL);
}

/* Wakes itself at once, without yielding. */
struct restless {
    aw_future future;
    int out;
    aw_sleep sleep;
};
static aw_poll restless_poll(aw_future *self, aw_cx *cx) {
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return aw_future_poll(&((struct restless *)self)->sleep.future, cx);
}
static aw_poll restless_cancel(aw_future *self, aw_cx *cx) {
    if (!aw_future_started(self)) return AW_CANCELLED;
    return aw_future_cancel(&((struct restless *)self)->sleep.future, cx);
}
static const aw_future_type restless_type = {AW_TYPE_OF(struct restless, "restless"),
                                             .poll = restless_poll, .cancel = restless_cancel};

ON_WORKERS(a_task_that_wakes_itself_cannot_starve_its_own_timer) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    struct restless *h[9];
    for (uint32_t i = 0; i <= workers; i++)
        h[i] = aw_spawn_on(rt, ((struct restless){AW_FUTURE_INIT(&restless_type), 0,
                                                  aw_sleep_for(AW_MSEC(1 + i))}));
    for (uint32_t i = 0; i <= workers; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
        aw_task_drop(h[i]);
    }
    workers_end(rt, NULL);
}

/* ---- Spreading ------------------------------------------------------------------------------- */

/* Occupies its worker until all of them have arrived: each must have a worker of its own. */
AW_ASYNC(int, meets, uint32_t *arrived; uint32_t count;) {
    AW_BEGIN;
    ADD(*self->arrived, 1);
    WAIT_UNTIL(LOAD(*self->arrived) == self->count);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, spawns_meeting, uint32_t *arrived; uint32_t count; uint32_t i; struct meets * h[8];
         aw_task_join_future join;) {
    AW_BEGIN;
    for (uint32_t i = 0; i < self->count; i++)
        self->h[i] = aw_spawn(AW_CALL(meets, .arrived = self->arrived, .count = self->count));
    for (self->i = 0; self->i < self->count; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->h[self->i]));
        CHECK_EQ(aw_task_take(self->h[self->i]), 0);
    }
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(what_one_task_spawns_spreads_over_all_workers) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < test_scale(200); i++) {
        uint32_t arrived = 0;
        CHECK_EQ(RUN(rt, AW_CALL(spawns_meeting, .arrived = &arrived, .count = workers)), 0);
    }
    for (uint32_t i = 0; i < workers; i++) {
        aw_worker_counters c;
        CHECK_EQ(aw_runtime_counters(rt, i, &c), 0);
        CHECK_GT(c.polls, 0);
    }
    if (workers > 1) CHECK_GT(COUNTER_SUM(rt, steals), 0);
    workers_end(rt, NULL);
}

ON_WORKERS(what_a_thread_spawns_spreads_over_all_workers) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < test_scale(200); i++) {
        uint32_t arrived = 0;
        struct meets *h[8];
        for (uint32_t k = 0; k < workers; k++)
            h[k] = aw_spawn_on(rt, AW_CALL(meets, .arrived = &arrived, .count = workers));
        for (uint32_t k = 0; k < workers; k++) {
            CHECK_EQ(JOIN_STATUS(rt, h[k]), 0);
            aw_task_drop(h[k]);
        }
    }
    workers_end(rt, NULL);
}

/* One worker is occupied; the tasks in its queue are run by the others. */
AW_ASYNC(int, keeps_its_worker, uint32_t *seen; uint32_t count;) {
    AW_BEGIN;
    for (uint32_t i = 0; i < self->count; i++)
        aw_task_drop(aw_spawn(AW_CALL(mark, .seen = self->seen)));
    /* The last spawned task is in this worker's LIFO slot; the others can be stolen. */
    WAIT_UNTIL(LOAD(*self->seen) >= self->count - 1);
    AW_RETURN(0);
    AW_END;
}

TEST(others_take_the_work_of_a_worker_that_is_occupied) {
    aw_runtime *rt = workers_new(2, NULL, NULL);
    uint32_t seen = 0;
    CHECK_EQ(RUN(rt, AW_CALL(keeps_its_worker, .seen = &seen, .count = 1000)), 0);
    WAIT_UNTIL(LOAD(seen) == 1000);
    workers_end(rt, NULL);
}

/* ---- Sleeping -------------------------------------------------------------------------------- */

/* Counts its polls; woken for ever. */
typedef struct sleepless {
    uint32_t polls;
    aw_waker waker;
} sleepless;

static aw_poll count_polls(void *arg, aw_cx *cx, int *out) {
    sleepless *s = arg;
    *out = 0;
    if (!s->waker.type) s->waker = aw_waker_clone(aw_cx_waker(cx));
    ADD(s->polls, 1);
    return AW_PENDING;
}

/* Each wake comes when the worker is about to sleep or just sleeps: at no moment is it lost. */
ON_WORKERS(a_wake_from_a_thread_reaches_a_runtime_that_falls_asleep) {
    uint64_t random = test_seed();
    sleepless s = {0};
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    aw_poll_fn *h = aw_spawn_on(rt, aw_poll_fn_of(count_polls, &s));
    for (uint32_t i = 1; i < (uint32_t)test_scale(10000); i++) {
        WAIT_UNTIL(LOAD(s.polls) >= i);
        for (int n = (int)(test_random(&random) % (i % 2 ? 300 : 10000)); n > 0; n--)
            __asm__ volatile("");
        aw_waker_wake_by_ref(&s.waker);
    }
    aw_task_abort(h);
    CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
    aw_task_drop(h);
    aw_waker_drop(s.waker);
    workers_end(rt, NULL);
}

/* Until no worker has had anything to do for a while. */
static void settle(aw_runtime *rt) {
    uint64_t before = 0, now;
    while ((now = COUNTER_SUM(rt, parks)) != before || now < aw_runtime_workers(rt)) {
        before = now;
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
}

ON_WORKERS(a_wake_ends_the_sleep_of_a_runtime_at_once_timing) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    gate g = GATE;
    struct through *h = aw_spawn_on(rt, through(&g));
    gate_wait(&g, 1);
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < 10; i++) {
        settle(rt);
        uint64_t begin = test_now_ns();
        gate_wake(&g);
        gate_wait(&g, 2 + i);
        uint64_t took = test_now_ns() - begin;
        if (took < best) best = took;
    }
    CHECK_LT(best, AW_MSEC(5)); /* another thread may have the processor, but not ten times */
    gate_open(&g);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

/* Of all threads of this process but the calling one. */
static uint64_t switches(void) {
    uint64_t sum = 0;
    DIR *d = opendir("/proc/self/task");
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));) {
        char path[300], line[200];
        if (e->d_name[0] == '.' || atol(e->d_name) == syscall(SYS_gettid)) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "r");
        CHECK(f != NULL);
        while (fgets(line, sizeof line, f)) {
            unsigned long n;
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1 ||
                sscanf(line, "nonvoluntary_ctxt_switches: %lu", &n) == 1)
                sum += n;
        }
        fclose(f);
    }
    closedir(d);
    return sum;
}

ON_WORKERS(a_parked_runtime_does_not_run_at_all_timing) {
    if (test_under_sanitizer() || test_under_valgrind()) SKIP("has threads of its own");
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    gate g = GATE;
    struct through *h = aw_spawn_on(rt, through(&g));
    aw_sleep *s = aw_spawn_on(rt, aw_sleep_for(AW_SEC(3600)));
    gate_wait(&g, 1);
    settle(rt);
    /* A thread that counts as parked may still be on its way into the kernel: the second window is
     * without it. */
    uint64_t parks = 0, parked = 1, before = 0, switched = 1;
    for (int window = 0; window < 3 && (switched || parked); window++) {
        parks = COUNTER_SUM(rt, parks);
        before = switches();
        nanosleep(&(struct timespec){1, 0}, NULL);
        switched = switches() - before;
        parked = COUNTER_SUM(rt, parks) - parks;
    }
    CHECK_EQ(switched, 0);
    CHECK_EQ(parked, 0);
    gate_open(&g);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_task_drop(s);
    workers_end(rt, NULL);
}

/* ---- Refused --------------------------------------------------------------------------------- */

AW_ASYNC(int, blocks, aw_runtime *rt; aw_yield pause;) {
    AW_BEGIN;
    AW_RETURN(aw_block_on(self->rt, aw_ready_now(3)));
    AW_END;
}

ON_WORKERS(block_on_inside_a_task_is_refused_by_name) {
    kept_log log = KEPT_LOG;
    aw_runtime *rt = workers_new(workers, NULL, &log), *other = workers_new(1, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(blocks, .rt = rt)), -EPERM);
    CHECK_EQ(RUN(rt, AW_CALL(blocks, .rt = other)), -EPERM);
    CHECK_EQ(log_count(&log, "was refused inside task"), 2);
    CHECK_EQ(log_count(&log, "'blocks'"), 2);
    workers_end(rt, NULL);
    workers_end(other, NULL);
}
