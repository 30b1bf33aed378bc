/* SPDX-License-Identifier: MIT
 *
 * Plain threads sleep on a runtime that ends at a random moment. Each thread goes on until a sleep
 * returns -ESHUTDOWN: in its first poll, in a later one with another waker, in a cancel, or after a
 * reset. No sleep is lost, and nothing of the runtime is accessed after it is freed: checked by
 * ASan and TSan, and by an allocator that overwrites freed memory. */
#include "support/workers.h"

enum { THREADS = 4, SLEEPS = 8 };

typedef struct ending_clock {
    aw_runtime *rt;
    uint32_t entered, polls;          /* atomic */
    uint32_t ended, cancelled, moved; /* atomic: where -ESHUTDOWN was seen */
} ending_clock;

/* One thread: some sleeps, and a parker that they wake. Each sleep is allocated by itself, so that
 * ASan sees a late access. */
typedef struct sleeper_thread {
    ending_clock *clock;
    aw_parker *parker;
    aw_sleep *sleeps[SLEEPS];
    bool over; /* a sleep has returned -ESHUTDOWN */
} sleeper_thread;

static void note(sleeper_thread *t, int i, uint32_t *where) {
    aw_sleep *s = t->sleeps[i];
    CHECK(s->out == 0 || s->out == -ESHUTDOWN);
    if (s->out) {
        t->over = true;
        ADD(*where, 1);
    }
    memset(s, 0xa5, sizeof *s);
    free(s);
    t->sleeps[i] = NULL;
}

static void poll_one(sleeper_thread *t, int i, aw_cx *cx) {
    ADD(t->clock->polls, 1);
    if (aw_future_poll(&t->sleeps[i]->future, cx) == AW_READY) note(t, i, &t->clock->ended);
}

static void disturb(sleeper_thread *t, int i, aw_cx *cx, uint64_t *random) {
    char text[128];
    switch (test_random(random) % 3) {
    case 0:
        if (aw_future_cancel(&t->sleeps[i]->future, cx) == AW_CANCELLED) t->sleeps[i]->out = 0;
        note(t, i, &t->clock->cancelled);
        break;
    case 1:
        aw_sleep_reset(t->sleeps[i], test_now_ns() + test_random(random) % AW_USEC(200));
        if (aw_future_poll(&t->sleeps[i]->future, cx) == AW_READY) note(t, i, &t->clock->moved);
        break;
    default: aw_future_describe(&t->sleeps[i]->future, text, sizeof text);
    }
}

static void sleep_until_the_end(void *arg, int index, uint64_t *random) {
    static aw_flag flags[MAX_THREADS]; /* static: a wake may come late */
    sleeper_thread t = {.clock = arg, .parker = aw_parker_new()};
    aw_runtime *previous = aw_enter(t.clock->rt);
    ADD(t.clock->entered, 1);
    aw_waker park = aw_parker_waker(t.parker), flag = aw_flag_waker(&flags[index]);
    while (!t.over) {
        bool other_waker = chance(random, 4); /* then polled again with the parker's */
        aw_cx cx = aw_cx_from_waker(other_waker ? &flag : &park);
        for (int i = 0; i < SLEEPS; i++) {
            if (!t.sleeps[i]) {
                t.sleeps[i] = malloc(sizeof(aw_sleep));
                *t.sleeps[i] = aw_sleep_for(chance(random, 4) ? AW_SEC(3600)
                                                              : test_random(random) % AW_USEC(100));
            }
            poll_one(&t, i, &cx);
            if (t.sleeps[i] && chance(random, 4)) disturb(&t, i, &cx, random);
        }
        if (!other_waker && chance(random, 4))
            aw_parker_park_until(t.parker, test_now_ns() + AW_USEC(50));
    }
    /* The other sleeps end by themselves. */
    aw_cx cx = aw_cx_from_waker(&park);
    if (chance(random, 2)) {
        aw_leave(previous); /* now only the sleeps keep the memory */
        previous = NULL;
    }
    for (bool waits = true; waits;) {
        waits = false;
        for (int i = 0; i < SLEEPS; i++)
            if (t.sleeps[i]) {
                poll_one(&t, i, &cx);
                waits |= t.sleeps[i] != NULL;
            }
        if (waits) aw_parker_park(t.parker);
    }
    if (aw_runtime_current()) aw_leave(previous);
    aw_parker_free(t.parker);
}

static void ignore_info(void *data, aw_log_level level, const char *message) {
    (void)data;
    if (level != AW_LOG_INFO) FAIL("%s", message);
}

static void *run_it(void *arg) {
    host *h = arg;
    CHECK_EQ(aw_block_on(h->rt, aw_notify_wait(&h->stop)), 0);
    return NULL;
}

static void end_it(aw_runtime *rt, uint64_t *random) {
    uint64_t how = test_random(random) % 3;
    if (how == 0) CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(100)), 0);
    if (how == 1)
        aw_runtime_abandon(rt);
    else
        aw_runtime_free(rt);
}

static void race(aw_flavour flavour, uint64_t *random, uint32_t *seen) {
    memory m;
    thread_group s;
    memory_init(&m);
    ending_clock c = {.rt = NULL};
    aw_runtime_options o = workers_options(1 + (uint32_t)(test_random(random) % 3), &m, NULL);
    o.flavour = flavour;
    o.log = ignore_info;
    CHECK_EQ(aw_runtime_new(&c.rt, &o), 0);
    host h = {.rt = c.rt};
    if (flavour == AW_CURRENT_THREAD) h.thread = thread_start(run_it, &h);
    thread_group_create(&s, THREADS, random, sleep_until_the_end, &c);
    thread_group_go(&s);
    WAIT_UNTIL(LOAD(c.entered) == THREADS);
    uint32_t polls = (uint32_t)(test_random(random) % 1000);
    WAIT_UNTIL(LOAD(c.polls) >= polls);
    if (flavour == AW_CURRENT_THREAD) host_stop(&h);
    end_it(c.rt, random);
    thread_group_join(&s);
    WAIT_UNTIL(memory_in_use(&m) == 0); /* an abandoned runtime frees itself later */
    seen[0] += c.ended;
    seen[1] += c.cancelled;
    seen[2] += c.moved;
}

ON_FLAVOURS(sleeps_of_plain_threads_race_with_the_end_of_the_runtime) {
    uint64_t random = test_seed();
    uint32_t seen[3] = {0};
    for (int round = 0; round < stress_rounds(60); round++)
        race(flavour, &random, seen);
    CHECK_GT(seen[0], 0);
    if (!test_under_valgrind()) CHECK_GT(seen[1] + seen[2], 0);
}
