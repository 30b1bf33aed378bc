/* SPDX-License-Identifier: MIT
 *
 * A channel is linearizable: the results that several threads see could come from a plain queue on
 * which the operations run one after another, each at some moment between its begin and its end.
 * The test records histories of a few operations, and tries all orders that their times allow. */
#include <errno.h>

#include "sync/channel_lock.h"

#include "support/by_hand.h"
#include "support/workers.h"

typedef AW_CHANNEL(int) ints;

enum { THREADS = 3, EACH = 4, OPERATIONS = THREADS * EACH };

typedef enum kind { TRY_SEND, TRY_RECV, SEND, RECV, LEN, CLOSE } kind;

typedef struct operation {
    kind kind;
    int value; /* sent or received */
    int result;
    uint64_t begin, end;
} operation;

typedef struct history {
    operation done[THREADS][EACH];
} history;

/* ---- Recording ------------------------------------------------------------------------------- */

typedef struct record {
    ints c;
    uint64_t now; /* logical clock: counts begins and ends */
    history history;
} record;

static aw_flag flags[THREADS];

static uint64_t tick(record *r) {
    return __atomic_fetch_add(&r->now, 1, __ATOMIC_SEQ_CST);
}

static void poll_to_end(aw_channel_future *f, aw_flag *flag) {
    while (POLL(f, flag) == AW_PENDING)
        while (!aw_flag_take(flag))
            sched_yield();
}

static void operate(record *r, operation *o, int thread) {
    aw_channel_future f;
    o->begin = tick(r);
    switch (o->kind) {
    case TRY_SEND: o->result = aw_channel_try_send(&r->c, &o->value); break;
    case TRY_RECV: o->result = aw_channel_try_recv(&r->c, &o->value); break;
    case LEN: o->result = (int)aw_channel_len(&r->c); break;
    case CLOSE: aw_channel_close(&r->c); break;
    case SEND:
        f = aw_channel_send(&r->c, &o->value);
        poll_to_end(&f, &flags[thread]);
        o->result = f.out;
        break;
    case RECV:
        f = aw_channel_recv(&r->c, &o->value);
        poll_to_end(&f, &flags[thread]);
        o->result = f.out;
        break;
    }
    o->end = tick(r);
}

static void thread_body(void *arg, int index, uint64_t *random) {
    record *r = arg;
    for (int i = 0; i < EACH; i++) {
        jitter(random);
        operate(r, &r->history.done[index][i], index);
    }
}

/* No operation waits forever: the first thread never waits, and finally closes the channel. */
static void plan(record *r, uint64_t *random) {
    static const kind any[] = {TRY_SEND, TRY_RECV, TRY_SEND, TRY_RECV, LEN, SEND, RECV};
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < EACH; i++) {
            unsigned kinds = t == 0 ? 5 : 7;
            r->history.done[t][i] = (operation){.kind = any[test_random(random) % kinds],
                                                .value = 10 * t + i};
        }
    r->history.done[0][EACH - 1].kind = CLOSE;
}

/* ---- Search for an order --------------------------------------------------------------------- */

typedef struct queue {
    int items[OPERATIONS];
    int first, count;
    bool closed;
} queue;

/* Applies the operation to a plain queue. False: the result differs, or it would have to wait. */
static bool replay(queue *q, size_t capacity, const operation *o) {
    bool full = (size_t)q->count >= capacity, sends = o->kind == SEND || o->kind == TRY_SEND;
    if (o->kind == LEN) return o->result == q->count;
    if (o->kind == CLOSE) return q->closed = true;
    if (sends && q->closed) return o->result == -EPIPE;
    if (sends && full) return o->kind == TRY_SEND && o->result == -EAGAIN;
    if (sends) {
        q->items[(q->first + q->count++) % OPERATIONS] = o->value;
        return o->result == 0;
    }
    if (q->count == 0 && q->closed) return o->result == -EPIPE;
    if (q->count == 0) return o->kind == TRY_RECV && o->result == -EAGAIN;
    int item = q->items[q->first];
    q->first = (q->first + 1) % OPERATIONS;
    q->count--;
    return o->result == 0 && o->value == item;
}

/* The next operation of a thread may be replayed if no other operation that is not yet replayed
 * ended before it began. */
static bool may_be_next(const history *h, const int at[THREADS], int thread) {
    for (int t = 0; t < THREADS; t++)
        if (at[t] < EACH && h->done[t][at[t]].end < h->done[thread][at[thread]].begin) return false;
    return true;
}

static bool has_order(const history *h, size_t capacity, const queue *q, int at[THREADS]) {
    bool all = true;
    for (int t = 0; t < THREADS; t++) {
        if (at[t] == EACH) continue;
        all = false;
        queue next = *q;
        if (!may_be_next(h, at, t) || !replay(&next, capacity, &h->done[t][at[t]])) continue;
        at[t]++;
        bool found = has_order(h, capacity, &next, at);
        at[t]--;
        if (found) return true;
    }
    return all;
}

static bool is_linear(const history *h, size_t capacity) {
    queue empty = {.count = 0};
    int at[THREADS] = {0};
    return has_order(h, capacity, &empty, at);
}

static void show(const history *h) {
    static const char *const names[] = {"try_send", "try_recv", "send", "recv", "len", "close"};
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < EACH; i++) {
            const operation *o = &h->done[t][i];
            fprintf(stderr, "thread %d: %3d..%3d %s(%d) = %d\n", t, (int)o->begin, (int)o->end,
                    names[o->kind], o->value, o->result);
        }
}

TEST_LIMIT(what_threads_see_of_a_channel_has_an_order, 60) {
    static const size_t capacities[] = {1, 2, 3, AW_UNBOUNDED};
    static record r;
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(2000); round++) {
        size_t capacity = capacities[round % 4];
        thread_group s;
        memset(&r, 0, sizeof r);
        CHECK_EQ(aw_channel_init(&r.c, capacity), 0);
        if (round / 4 % 2) aw__tail_always(&r.c.channel); /* as in a large channel */
        plan(&r, &random);
        thread_group_create(&s, THREADS, &random, thread_body, &r);
        thread_group_go(&s);
        thread_group_join(&s);
        if (!is_linear(&r.history, capacity)) {
            show(&r.history);
            FAIL("there is no order (capacity %d)", (int)capacity);
        }
        aw_channel_free(&r.c);
    }
}

/* The search rejects wrong histories. */
TEST(a_history_without_an_order_is_found) {
    history h;
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < EACH; i++)
            h.done[t][i] = (operation){LEN, 0, 0, 1000, 1000}; /* at the end: it is empty */
    h.done[0][0] = (operation){TRY_SEND, 1, 0, 0, 1};
    h.done[0][1] = (operation){TRY_SEND, 2, 0, 2, 3};
    h.done[1][0] = (operation){TRY_RECV, 1, 0, 4, 7};
    h.done[2][0] = (operation){TRY_RECV, 2, 0, 5, 6}; /* concurrent: it may end first */
    CHECK(is_linear(&h, 2));
    CHECK(!is_linear(&h, 1)); /* capacity 1: the second send finds it full */
    h.done[1][0].begin = 7, h.done[1][0].end = 8;
    CHECK(!is_linear(&h, 2)); /* not concurrent: 2 was received before 1 */
    h.done[1][0] = (operation){TRY_RECV, 2, 0, 4, 7};
    CHECK(!is_linear(&h, 2)); /* 2 was received twice */
    h.done[1][0] = (operation){TRY_RECV, 0, -EAGAIN, 4, 7};
    CHECK(!is_linear(&h, 2)); /* 1 is lost */
}
