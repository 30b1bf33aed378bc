/* SPDX-License-Identifier: MIT
 *
 * Storms on the references of one task. Many threads, and the runtime's own, clone, wake and drop
 * wakers, and pass them to each other, while the task completes, its handle is dropped and the
 * runtime ends. Afterwards all memory is freed, and the task has ended once.
 *
 * Most wakers stay on one thread, so that nothing but the library's protocol orders the threads. A
 * few move to other threads through slots, by one atomic exchange each. */
#include "support/stress.h"

enum { SLOTS = 4, OWN = 8 };

typedef struct arena {
    aw_runtime *rt;
    const aw_waker_type *type; /* of all wakers of the arena */
    void *slots[SLOTS];
    aw_waker own[MAX_THREADS][OWN];
    int count[MAX_THREADS];
    uint32_t finish, polls, finals, discards;
    int operations;
    bool no_wakes; /* the threads share nothing but the reference count */
} arena;

/* ---- The victim ------------------------------------------------------------------------------ */

struct victim {
    aw_future future;
    int out;
    arena *arena;
};

static aw_poll victim_poll(aw_future *self, aw_cx *cx) {
    arena *a = ((struct victim *)self)->arena;
    a->polls++;
    if (LOAD(a->finish)) {
        a->finals++;
        return AW_READY;
    }
    /* A pending future must leave a waker. One more in each poll. */
    void *old = __atomic_exchange_n(&a->slots[a->polls % SLOTS],
                                    aw_waker_clone(aw_cx_waker(cx)).data, __ATOMIC_ACQ_REL);
    if (old) aw_waker_drop((aw_waker){a->type, old});
    return AW_PENDING;
}

static aw_poll victim_cancel(aw_future *self, aw_cx *cx) {
    (void)cx;
    ((struct victim *)self)->arena->finals++;
    return AW_CANCELLED;
}

static void victim_discard(aw_future *self) {
    ADD(((struct victim *)self)->arena->discards, 1);
}

static const aw_future_type victim_type = {
    AW_TYPE_OF(struct victim, "victim"),
    .poll = victim_poll,
    .cancel = victim_cancel,
    .discard = victim_discard,
};

/* ---- One operation --------------------------------------------------------------------------- */

static void operate(arena *a, aw_waker *own, int *count, uint64_t *random) {
    uint64_t r = test_random(random);
    aw_waker *last = *count ? &own[*count - 1] : NULL;
    switch (r % 8) {
    case 0:
    case 1:
        if (last && *count < OWN) {
            own[*count] = aw_waker_clone(last);
            ++*count;
        }
        break;
    case 2:
    case 3:
        if (last) {
            if (r % 8 == 2 && !a->no_wakes)
                aw_waker_wake(*last);
            else
                aw_waker_drop(*last);
            --*count;
        }
        break;
    case 4:
    case 5:
        if (last && !a->no_wakes) aw_waker_wake_by_ref(last);
        break;
    default: { /* exchange with a slot: put one, take one, or both */
        void *mine = last && r & 256 ? last->data : NULL;
        void *other = __atomic_exchange_n(&a->slots[(r >> 9) % SLOTS], mine, __ATOMIC_ACQ_REL);
        if (mine) --*count;
        if (!other) break;
        aw_waker w = {a->type, other};
        if (*count < OWN)
            own[(*count)++] = w;
        else
            aw_waker_drop(w);
    }
    }
}

static void release_wakers(arena *a, aw_waker *own, int *count, uint64_t *random) {
    while (*count) {
        aw_waker w = own[--*count];
        if (chance(random, 2) && !a->no_wakes)
            aw_waker_wake(w);
        else
            aw_waker_drop(w);
        jitter(random);
    }
    for (int i = 0; i < SLOTS; i++) {
        void *w = __atomic_exchange_n(&a->slots[i], NULL, __ATOMIC_ACQ_REL);
        if (w) aw_waker_drop((aw_waker){a->type, w});
    }
}

static void storm_body(void *arg, int index, uint64_t *random) {
    arena *a = arg;
    for (int i = 0; i < a->operations; i++) {
        operate(a, a->own[index], &a->count[index], random);
        jitter(random);
    }
    release_wakers(a, a->own[index], &a->count[index], random);
}

/* The same operations on the runtime's thread, between polls of the victim. */
AW_ASYNC(int, meddle, arena *arena; struct victim * drop; aw_waker own[OWN]; int count;
         uint64_t * random; int operations;) {
    AW_BEGIN;
    if (self->drop) aw_task_drop(self->drop);
    for (; self->operations > 0; self->operations--) {
        operate(self->arena, self->own, &self->count, self->random);
        if (chance(self->random, 4)) AW_YIELD;
    }
    AW_RETURN(0);
    AW_FINALLY;
    release_wakers(self->arena, self->own, &self->count, self->random);
    AW_END;
}

static void *drop_victim(void *handle) {
    aw_task_drop((struct victim *)handle);
    return NULL;
}

/* The first poll left a clone in a slot. Each thread gets clones of it. */
static void arm_threads(arena *a, int threads, uint64_t *random) {
    aw_waker first = {a->type, NULL};
    for (int i = 0; i < SLOTS && !first.data; i++)
        first.data = __atomic_exchange_n(&a->slots[i], NULL, __ATOMIC_ACQ_REL);
    CHECK(first.data != NULL);
    for (int i = 0; i < threads; i++)
        for (int k = (int)(test_random(random) % 3); k >= 0; k--)
            a->own[i][a->count[i]++] = aw_waker_clone(&first);
    aw_waker_drop(first);
}

AW_ASYNC(int, learn_type, const aw_waker_type **type;) {
    AW_BEGIN;
    *self->type = aw_cx_waker(cx)->type;
    AW_RETURN(0);
    AW_END;
}

static void run_arena(uint64_t *random, int threads, memory *m, int operations) {
    thread_group s;
    arena a = {.operations = operations};
    a.rt = runtime_new(m, NULL, NULL, false);
    struct learn_type *learns = aw_spawn_on(a.rt, AW_CALL(learn_type, .type = &a.type));
    CHECK_EQ(JOIN_STATUS(a.rt, learns), 0);
    aw_task_drop(learns);
    struct victim *h = aw_spawn_on(a.rt, ((struct victim){AW_FUTURE_INIT(&victim_type), 0, &a}));
    run_a_while(a.rt);
    arm_threads(&a, threads, random);
    thread_group_create(&s, threads, random, storm_body, &a);

    /* When the task ends, and when and where its handle is dropped. */
    uint64_t fate = test_random(random);
    bool finish = fate & 1, drop_first = fate & 2, elsewhere = fate & 4, abort = fate & 8;
    uint64_t meddler = test_random(random);
    a.no_wakes = fate & 16;
    thread_group_go(&s);
    if (drop_first && elsewhere) on_a_thread(drop_victim, h);
    CHECK_EQ(aw_block_on(a.rt, AW_CALL(meddle, .arena = &a, .random = &meddler,
                                       .drop = drop_first && !elsewhere ? h : NULL,
                                       .operations = (int)(fate >> 8 & 127))),
             0);
    if (finish) STORE(a.finish, 1); /* the next wake ends it */
    if (abort && !drop_first) aw_task_abort(h);
    CHECK_EQ(aw_block_on(a.rt, AW_CALL(meddle, .arena = &a, .random = &meddler,
                                       .operations = (int)(fate >> 16 & 127))),
             0);
    aw_runtime_free(a.rt);
    CHECK_EQ(a.finals, 1);
    uint32_t polls = a.polls;
    if (!drop_first) {
        CHECK(aw_task_is_finished(h));
        if (elsewhere)
            on_a_thread(drop_victim, h);
        else
            aw_task_drop(h);
    }
    thread_group_join(&s);
    uint64_t last = 1;
    release_wakers(&a, NULL, &(int){0}, &last); /* what the threads have put into the slots since */
    CHECK_EQ(a.polls, polls);
    CHECK_EQ(a.finals, 1);
    CHECK_LE(a.discards, 1);
    if (memory_in_use(m))
        FAIL("%zu blocks remain, %zu bytes", memory_in_use(m), m->taken_bytes - m->given_bytes);
}

TEST_LIMIT(references_stay_balanced_while_the_task_ends_and_the_runtime_too, 60) {
    uint64_t random = test_seed();
    memory m;
    memory_init(&m);
    for (int round = 0; round < stress_rounds(3000); round++)
        run_arena(&random, 1 + round % 4, &m, 20 + round % 200);
    CHECK_EQ(m.given_bytes, m.taken_bytes);
}

TEST_LIMIT(references_stay_balanced_with_eight_threads, 60) {
    uint64_t random = test_seed() + 1;
    memory m;
    memory_init(&m);
    for (int round = 0; round < stress_rounds(500); round++)
        run_arena(&random, 8, &m, 300);
}

/* ---- The last reference ---------------------------------------------------------------------- */

/* A waker is consumed at the moment at which the runtime wakes by its timer, serves the wake, ends
 * and is freed. The waking thread must not access the runtime after that. */
struct last_wake {
    aw_waker waker;
    bool wake;
};

static void wake_last(void *arg, int index, uint64_t *random) {
    struct last_wake *l = arg;
    (void)index;
    for (volatile int i = (int)(test_random(random) % 3000); i > 0; i--)
        ;
    if (l->wake)
        aw_waker_wake(l->waker);
    else
        aw_waker_drop(l->waker);
}

TEST_LIMIT(a_wake_that_meets_the_end_of_the_runtime_is_safe, 60) {
    uint64_t random = test_seed() + 2;
    memory m;
    memory_init(&m);
    for (int round = 0; round < stress_rounds(5000); round++) {
        thread_group s;
        probe_state l = PROBE_STATE;
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        aw_task_drop(aw_spawn_on(rt, probe_of(&l)));
        run_a_while(rt);
        struct last_wake last = {aw_waker_clone(&l.waker), round % 2};
        thread_group_create(&s, 1, &random, wake_last, &last);
        thread_group_go(&s);
        CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_USEC(test_random(&random) % 20))), 0);
        aw_runtime_free(rt);
        thread_group_join(&s);
        CHECK_EQ(l.cancels, 1);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* The same for handles: the last one is dropped while the runtime ends. */
static void drop_last(void *arg, int index, uint64_t *random) {
    (void)index;
    jitter(random);
    aw_task_drop((struct probe *)arg);
}

TEST_LIMIT(a_handle_dropped_while_the_runtime_ends_releases_its_task_once, 60) {
    uint64_t random = test_seed() + 3;
    memory m;
    memory_init(&m);
    for (int round = 0; round < stress_rounds(5000); round++) {
        thread_group s;
        probe_state l = PROBE_STATE;
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        struct probe *h = aw_spawn_on(rt, probe_of(&l));
        run_a_while(rt);
        thread_group_create(&s, 1, &random, drop_last, h);
        bool finished = round % 2;
        thread_group_go(&s);
        if (finished) {
            probe_finish(&l);
            run_a_while(rt);
        }
        aw_runtime_free(rt);
        thread_group_join(&s);
        /* The wake may be merged into a request that the other thread has begun and not yet pushed.
         * Then the runtime may end before the task is polled again. */
        CHECK_EQ(l.cancels + l.discards, 1);
        if (!finished) CHECK_EQ(l.cancels, 1);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}
