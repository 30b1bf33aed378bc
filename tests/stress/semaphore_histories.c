/* SPDX-License-Identifier: MIT
 *
 * Is the semaphore linearizable? Four threads do four operations each, at once, and note when each began and ended and what it
 * answered. Then all orders are searched for one in which a semaphore without threads gives the same answers. Many such
 * histories. An acquire is two steps: it comes, and has what it wants or stands in the queue; and it gives up, if it
 * has not been served by then. */
#include "support/storm.h"

enum { THREADS = 4, OPERATIONS = 4, PERMITS = 3 };

typedef enum kind { TRY, RELEASE, ACQUIRE, CLOSE, COUNT } kind;
enum { GAVE_UP = -1000, WAITS = -1001 };

typedef struct operation {
    kind kind;
    uint32_t n;
    int result;
    uint32_t began, ended; /* from one clock for all */
} operation;

typedef struct history {
    operation of[THREADS][OPERATIONS];
} history;

/* ---- A semaphore for one thread --------------------------------------------------------------- */

typedef struct plain {
    uint8_t permits, closed, waiting;
    uint8_t queue[THREADS]; /* who, in order */
    uint8_t at[THREADS];    /* which operation is next, of each */
    int16_t
        served[THREADS]; /* the answer to an acquire that has come; WAITS; GAVE_UP: has not come */
} plain;

static const operation *next_of(const history *h, const plain *p, int who) {
    return p->at[who] < OPERATIONS ? &h->of[who][p->at[who]] : NULL;
}

static void leave_queue(plain *p, int place) {
    memmove(p->queue + place, p->queue + place + 1, (size_t)(--p->waiting - place));
}

static void serve(const history *h, plain *p) {
    while (p->waiting) {
        int who = p->queue[0];
        uint32_t n = next_of(h, p, who)->n;
        if (!p->closed && p->permits < n) return;
        p->served[who] = p->closed ? -EPIPE : 0;
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

/* The next step of a thread. True: it is possible, and has the answer that the real one gave, if it ends the
 * operation. */
static bool step(const history *h, plain *p, int who) {
    const operation *o = next_of(h, p, who);
    int answer = 0;
    if (o->kind == ACQUIRE && p->served[who] == GAVE_UP) { /* comes */
        p->served[who] = (int16_t)take(p, o->n);
        if (p->served[who] != -EAGAIN) return true;
        p->served[who] = WAITS;
        p->queue[p->waiting++] = (uint8_t)who;
        return true;
    }
    if (o->kind == ACQUIRE) {
        answer = p->served[who];
        if (answer == WAITS) {
            int place = 0;
            while (p->queue[place] != who)
                place++;
            leave_queue(p, place);
            answer = GAVE_UP;
        }
        p->served[who] = GAVE_UP;
    }
    if (o->kind == TRY) answer = take(p, o->n);
    if (o->kind == RELEASE) p->permits = (uint8_t)(p->permits + o->n);
    if (o->kind == CLOSE) p->closed = 1;
    if (o->kind == COUNT) answer = p->permits;
    p->at[who]++;
    serve(h, p);
    return answer == o->result;
}

/* ---- The search ------------------------------------------------------------------------------- */

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

/* Nothing that had ended before this began is still to come. */
static bool may_be_next(const history *h, const plain *p, int who) {
    const operation *o = next_of(h, p, who);
    if (!o) return false;
    for (int i = 0; i < THREADS; i++) {
        const operation *other = next_of(h, p, i);
        if (i != who && other && other->ended < o->began) return false;
    }
    return true;
}

static bool search(const history *h, const plain *p) {
    bool done = true;
    if (!is_new(p)) return false;
    for (int who = 0; who < THREADS; who++) {
        if (next_of(h, p, who)) done = false;
        if (!may_be_next(h, p, who)) continue;
        plain after = *p;
        if (step(h, &after, who) && search(h, &after)) return true;
    }
    return done;
}

static bool is_linearizable(const history *h) {
    plain p;
    memset(&p, 0, sizeof p); /* it is compared byte by byte */
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

/* ---- Histories that cannot be ----------------------------------------------------------------- */

/* Each operation after the other. */
static history quiet(void) {
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
    history h = quiet();
    CHECK(is_linearizable(&h));
    h.of[0][0] = (operation){TRY, PERMITS, 0, 0, 1};
    CHECK(is_linearizable(&h));
    h.of[1][0] = (operation){TRY, 1, 0, 20, 21}; /* one more than there are */
    CHECK(!is_linearizable(&h));
    h.of[1][0].result = -EAGAIN;
    CHECK(is_linearizable(&h));
    h.of[3][3] = (operation){RELEASE, 1, 0, 20, 30}; /* beside it: both are possible */
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
    history h = quiet();
    /* Two want all and one: who came first cannot have given up when the other, who came later, has its permit, unless
     * it did so first. */
    h.of[0][0] = (operation){TRY, 1, 0, 0, 1};
    for (int i = 1; i < 3; i++)
        h.of[i][0] = (operation){ACQUIRE, i == 1 ? PERMITS : 1, i == 1 ? GAVE_UP : 0, 10, 20};
    CHECK(is_linearizable(&h));
    h.of[3][0] = (operation){TRY, 1, -EPIPE, 30, 31};
    CHECK(!is_linearizable(&h));
    h.of[0][1] = (operation){CLOSE, 0, 0, 15, 16};
    CHECK(is_linearizable(&h));
}

/* ---- Histories that are ----------------------------------------------------------------------- */

static struct {
    aw_semaphore s;
    uint32_t clock;               /* atomic */
    uint32_t round, ready, ended; /* atomic */
    history h;
    aw_flag flags[THREADS]; /* a thread may wake a moment after the end */
} real;

static int acquire(int who, uint32_t n, uint64_t *random) {
    aw_acquire f = aw_semaphore_acquire(&real.s, n);
    aw_waker waker = aw_flag_waker(&real.flags[who]);
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_poll r = aw_future_poll(&f.future, &cx);
    for (uint64_t looks = test_random(random) % 20; r == AW_PENDING && looks; looks--) {
        if (looks % 4 == 0) sched_yield(); /* lets the others do something meanwhile */
        if (aw_flag_take(&real.flags[who])) r = aw_future_poll(&f.future, &cx);
    }
    if (r == AW_PENDING) r = aw_future_cancel(&f.future, &cx);
    return r == AW_READY ? f.out : GAVE_UP;
}

static void operate(int who, operation *o, uint32_t *held, uint64_t *random) {
    uint64_t choice = test_random(random) % 16;
    o->n = 1 + (uint32_t)(test_random(random) % 2);
    o->kind = choice < 4 ? TRY : choice < 10 ? ACQUIRE : choice < 11 ? COUNT : RELEASE;
    if (o->kind == RELEASE) o->n = *held;
    if (choice == 15 && chance(random, 8)) o->kind = CLOSE;
    o->began = __atomic_fetch_add(&real.clock, 1, __ATOMIC_SEQ_CST);
    switch (o->kind) {
    case TRY: o->result = aw_semaphore_try_acquire(&real.s, o->n); break;
    case ACQUIRE: o->result = acquire(who, o->n, random); break;
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
    storm threads;
    rounds_wanted = (uint32_t)storm_rounds(3000);
    storm_make(&threads, THREADS, &random, make_history, NULL);
    storm_go(&threads);
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
    storm_end(&threads);
}
