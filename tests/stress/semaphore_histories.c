/* SPDX-License-Identifier: MIT
 *
 * The semaphore is linearizable. Four threads run four operations each, concurrently, and record
 * when each began and ended, and its result. Then all orders are searched for one in which a
 * single-threaded semaphore gives the same results. Many such histories. An acquire has two steps:
 * it arrives, and is served or queued; it ends, and gives up if it is not served by then. */
#include "support/stress.h"

enum { THREADS = 4, OPERATIONS = 4, PERMITS = 3 };

typedef enum kind { TRY, RELEASE, ACQUIRE, CLOSE, COUNT } kind;
enum { GAVE_UP = -1000, WAITS = -1001 };

typedef struct operation {
    kind kind;
    uint32_t n;
    int result;
    uint32_t began, ended; /* by one logical clock */
} operation;

typedef struct history {
    operation of[THREADS][OPERATIONS];
} history;

/* ---- A single-threaded semaphore ------------------------------------------------------------- */

typedef struct plain {
    uint8_t permits, closed, waiting;
    uint8_t queue[THREADS]; /* waiting threads, in order */
    uint8_t at[THREADS];    /* the next operation of each thread */
    /* Of an acquire that has arrived: its result, or WAITS. GAVE_UP: none has arrived. */
    int16_t served[THREADS];
} plain;

static const operation *next_of(const history *h, const plain *p, int thread) {
    return p->at[thread] < OPERATIONS ? &h->of[thread][p->at[thread]] : NULL;
}

static void leave_queue(plain *p, int position) {
    memmove(p->queue + position, p->queue + position + 1, (size_t)(--p->waiting - position));
}

static void serve(const history *h, plain *p) {
    while (p->waiting) {
        int thread = p->queue[0];
        uint32_t n = next_of(h, p, thread)->n;
        if (!p->closed && p->permits < n) return;
        p->served[thread] = p->closed ? -EPIPE : 0;
        if (!p->closed) p->permits = (uint8_t)(p->permits - n);
        leave_queue(p, 0);
    }
}

static int take(plain *p, uint32_t n) {
    if (p->closed) return -EPIPE;
    if (p->waiting || p->permits < n) return -EAGAIN;
    p->permits = (uint8_t)(p->permits - n);
    return 0;
}

/* The next step of a thread. True: it is possible and, if it ends the operation, gives the recorded
 * result. */
static bool step(const history *h, plain *p, int thread) {
    const operation *o = next_of(h, p, thread);
    int answer = 0;
    if (o->kind == ACQUIRE && p->served[thread] == GAVE_UP) { /* arrives */
        p->served[thread] = (int16_t)take(p, o->n);
        if (p->served[thread] != -EAGAIN) return true;
        p->served[thread] = WAITS;
        p->queue[p->waiting++] = (uint8_t)thread;
        return true;
    }
    if (o->kind == ACQUIRE) {
        answer = p->served[thread];
        if (answer == WAITS) {
            int position = 0;
            while (p->queue[position] != thread)
                position++;
            leave_queue(p, position);
            answer = GAVE_UP;
        }
        p->served[thread] = GAVE_UP;
    }
    if (o->kind == TRY) answer = take(p, o->n);
    if (o->kind == RELEASE) p->permits = (uint8_t)(p->permits + o->n);
    if (o->kind == CLOSE) p->closed = 1;
    if (o->kind == COUNT) answer = p->permits;
    p->at[thread]++;
    serve(h, p);
    return answer == o->result;
}

/* ---- The search ------------------------------------------------------------------------------ */

enum { SEEN = 1 << 16 };
static struct {
    plain states[SEEN];
    bool used[SEEN];
    int count;
} seen;

static bool is_new(const plain *p) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *p; i++)
        hash = (hash ^ ((const uint8_t *)p)[i]) * 1099511628211u;
    size_t i = hash % SEEN;
    for (; seen.used[i]; i = (i + 1) % SEEN)
        if (memcmp(&seen.states[i], p, sizeof *p) == 0) return false;
    CHECK_LT(++seen.count, SEEN / 2);
    seen.used[i] = true;
    seen.states[i] = *p;
    return true;
}

/* No other operation that is still to come ended before this one began. */
static bool may_be_next(const history *h, const plain *p, int thread) {
    const operation *o = next_of(h, p, thread);
    if (!o) return false;
    for (int i = 0; i < THREADS; i++) {
        const operation *other = next_of(h, p, i);
        if (i != thread && other && other->ended < o->began) return false;
    }
    return true;
}

static bool search(const history *h, const plain *p) {
    bool done = true;
    if (!is_new(p)) return false;
    for (int thread = 0; thread < THREADS; thread++) {
        if (next_of(h, p, thread)) done = false;
        if (!may_be_next(h, p, thread)) continue;
        plain after = *p;
        if (step(h, &after, thread) && search(h, &after)) return true;
    }
    return done;
}

static bool is_linearizable(const history *h) {
    plain p;
    memset(&p, 0, sizeof p); /* states are compared byte by byte */
    p.permits = PERMITS;
    for (int i = 0; i < THREADS; i++)
        p.served[i] = GAVE_UP;
    memset(seen.used, 0, sizeof seen.used);
    seen.count = 0;
    return search(h, &p);
}

static void print(const history *h) {
    static const char *const names[] = {"try", "release", "acquire", "close", "count"};
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < OPERATIONS; k++) {
            const operation *o = &h->of[i][k];
            fprintf(stderr, "thread %d  %3u-%-3u  %s(%u) = %d\n", i, o->began, o->ended,
                    names[o->kind], o->n, o->result);
        }
}

/* ---- Constructed histories ------------------------------------------------------------------- */

/* All operations, one after another. */
static history sequential_history(void) {
    history h = {0};
    uint32_t clock = 0;
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < OPERATIONS; k++) {
            h.of[i][k] = (operation){.kind = RELEASE, .began = clock, .ended = clock + 1};
            clock += 2;
        }
    return h;
}

TEST(the_search_finds_what_cannot_be) {
    history h = sequential_history();
    CHECK(is_linearizable(&h));
    h.of[0][0] = (operation){TRY, PERMITS, 0, 0, 1};
    CHECK(is_linearizable(&h));
    h.of[1][0] = (operation){TRY, 1, 0, 20, 21}; /* one more than there are */
    CHECK(!is_linearizable(&h));
    h.of[1][0].result = -EAGAIN;
    CHECK(is_linearizable(&h));
    h.of[3][3] = (operation){RELEASE, 1, 0, 20, 30}; /* concurrent: both are possible */
    CHECK(is_linearizable(&h));
    h.of[1][0].result = 0;
    h.of[3][3].began = 10;
    for (int k = 1; k < OPERATIONS; k++)
        h.of[1][k].began = 22 + (uint32_t)k * 2, h.of[1][k].ended = 23 + (uint32_t)k * 2;
    for (int i = 2; i < THREADS; i++)
        for (int k = 0; k < OPERATIONS; k++)
            h.of[i][k].began = 0, h.of[i][k].ended = 100;
    CHECK(is_linearizable(&h));
}

TEST(the_search_knows_the_queue) {
    history h = sequential_history();
    /* Concurrent acquires of all permits and of one permit. The second is served, the first gives
     * up: it was queued second, or gave up before the second was served. */
    h.of[0][0] = (operation){TRY, 1, 0, 0, 1};
    for (int i = 1; i < 3; i++)
        h.of[i][0] = (operation){ACQUIRE, i == 1 ? PERMITS : 1, i == 1 ? GAVE_UP : 0, 10, 20};
    CHECK(is_linearizable(&h));
    h.of[3][0] = (operation){TRY, 1, -EPIPE, 30, 31};
    CHECK(!is_linearizable(&h));
    h.of[0][1] = (operation){CLOSE, 0, 0, 15, 16};
    CHECK(is_linearizable(&h));
}

/* ---- Recorded histories ---------------------------------------------------------------------- */

static struct {
    aw_semaphore s;
    uint32_t clock;               /* atomic */
    uint32_t round, ready, ended; /* atomic */
    history h;
    aw_flag flags[THREADS]; /* a wake may come after the acquire has ended */
} real;

static int acquire(int thread, uint32_t n, uint64_t *random) {
    aw_acquire f = aw_semaphore_acquire(&real.s, n);
    aw_waker waker = aw_flag_waker(&real.flags[thread]);
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_poll r = aw_future_poll(&f.future, &cx);
    for (uint64_t looks = test_random(random) % 20; r == AW_PENDING && looks; looks--) {
        if (looks % 4 == 0) sched_yield(); /* lets the other threads run */
        if (aw_flag_take(&real.flags[thread])) r = aw_future_poll(&f.future, &cx);
    }
    if (r == AW_PENDING) r = aw_future_cancel(&f.future, &cx);
    return r == AW_READY ? f.out : GAVE_UP;
}

static void operate(int thread, operation *o, uint32_t *held, uint64_t *random) {
    uint64_t choice = test_random(random) % 16;
    o->n = 1 + (uint32_t)(test_random(random) % 2);
    o->kind = choice < 4 ? TRY : choice < 10 ? ACQUIRE : choice < 11 ? COUNT : RELEASE;
    if (o->kind == RELEASE) o->n = *held;
    if (choice == 15 && chance(random, 8)) o->kind = CLOSE;
    o->began = __atomic_fetch_add(&real.clock, 1, __ATOMIC_SEQ_CST);
    switch (o->kind) {
    case TRY: o->result = aw_semaphore_try_acquire(&real.s, o->n); break;
    case ACQUIRE: o->result = acquire(thread, o->n, random); break;
    case RELEASE: o->result = aw_semaphore_release(&real.s, o->n); break;
    case COUNT: o->result = (int)aw_semaphore_available(&real.s); break;
    case CLOSE: aw_semaphore_close(&real.s); o->result = 0;
    }
    o->ended = __atomic_fetch_add(&real.clock, 1, __ATOMIC_SEQ_CST);
    if (o->kind == RELEASE) *held = 0;
    if ((o->kind == TRY || o->kind == ACQUIRE) && o->result == 0) *held += o->n;
}

static uint32_t rounds_wanted;

static void make_history(void *arg, int index, uint64_t *random) {
    (void)arg;
    for (uint32_t round = 1; round <= rounds_wanted; round++) {
        uint32_t held = 0;
        ADD(real.ready, 1);
        for (int spins = 0; LOAD(real.round) < round; spins++)
            if (spins > 200) sched_yield();
        for (int i = 0; i < OPERATIONS; i++) {
            if (chance(random, 3)) sched_yield();
            operate(index, &real.h.of[index][i], &held, random);
        }
        __atomic_fetch_add(&real.ended, 1, __ATOMIC_RELEASE);
    }
}

TEST_LIMIT(the_semaphore_is_linearizable, 60) {
    uint64_t random = test_seed();
    thread_group threads;
    rounds_wanted = (uint32_t)stress_rounds(3000);
    thread_group_create(&threads, THREADS, &random, make_history, NULL);
    thread_group_go(&threads);
    for (uint32_t round = 1; round <= rounds_wanted; round++) {
        while (LOAD(real.ready) < round * THREADS)
            sched_yield();
        real.s = aw_semaphore_of(PERMITS);
        real.clock = 0;
        STORE(real.round, round);
        while (LOAD(real.ended) < round * THREADS)
            sched_yield();
        if (!is_linearizable(&real.h)) {
            print(&real.h);
            FAIL("round %u: no order explains this", round);
        }
        CHECK(!real.s.waiters.first && !real.s.lock);
    }
    thread_group_join(&threads);
}
