/* SPDX-License-Identifier: MIT
 *
 * A connection that transfers a few bytes at a time, is pending at random, and fails on request.
 * Its cancelled operations take time, or finish nevertheless: the worst that a kernel may do,
 * reproducible by a seed. One thread at a time. Also runs a future on it without an executor,
 * and cancels it at a random step. */
#ifndef AWAKE_TEST_SLOW_CONN_H
#define AWAKE_TEST_SLOW_CONN_H

#include <awake.h>

#include <string.h>

#include "support/by_hand.h"
#include "test.h"

struct slow_conn {
    aw_conn conn;
    uint64_t *random;
    /* What to do. */
    unsigned max_bytes; /* bytes per operation; 0: all that were requested */
    unsigned pends;     /* one in this many polls is pending; 0: none */
    /* One in this many cancelled operations finishes nevertheless; 0: none. */
    unsigned wins;
    const char *in; /* the bytes to read, then the end, or `in_error` once */
    size_t in_size;
    int in_error;
    char *
        /* Receives written bytes; when full, one operation fails with `out_error`, and the
         * capacity doubles. */
        out;
    size_t out_capacity;
    int out_error;
    /* What happened. */
    size_t in_at, out_size;
    int calls, in_flight, refs; /* in_flight: begun and not ended */
    bool shut, closed;
};

static inline size_t slow_conn_parts(aw_io *op, struct iovec *one, const struct iovec **parts) {
    bool many = op->wants == AW_IO_READV || op->wants == AW_IO_WRITEV;
    *one = (struct iovec){op->data, op->size};
    *parts = many ? op->data : one;
    return many ? op->size : 1;
}

static inline int slow_conn_move(struct slow_conn *t, aw_io *op) {
    struct iovec one;
    const struct iovec *parts;
    size_t count = slow_conn_parts(op, &one, &parts), asked = 0, moved = 0;
    bool reads = op->wants == AW_IO_READ || op->wants == AW_IO_READV;
    for (size_t i = 0; i < count; i++)
        asked += parts[i].iov_len;
    if (!asked) return 0;
    size_t left = reads ? t->in_size - t->in_at : t->out_capacity - t->out_size,
           n = t->max_bytes ? 1 + test_random(t->random) % t->max_bytes : asked;
    if (!left && reads) {
        int error = t->in_error;
        t->in_error = 0;
        return error;
    }
    if (!left) {
        CHECK(t->out_error);
        t->out_capacity *= 2;
        return t->out_error;
    }
    if (n > left) n = left;
    if (n > asked) n = asked;
    for (size_t i = 0; i < count && moved < n; i++) {
        size_t size = parts[i].iov_len < n - moved ? parts[i].iov_len : n - moved;
        if (reads)
            memcpy(parts[i].iov_base, t->in + t->in_at + moved, size);
        else if (size)
            memcpy(t->out + t->out_size + moved, parts[i].iov_base, size);
        moved += size;
    }
    *(reads ? &t->in_at : &t->out_size) += n;
    return (int)n;
}

static inline aw_poll slow_conn_finish(struct slow_conn *t, aw_io *op) {
    CHECK(!t->closed);
    op->out = 0;
    if (op->wants == AW_IO_SHUTDOWN)
        t->shut = true;
    else if (op->wants == AW_IO_WRITE && t->shut)
        op->out = -EPIPE;
    else
        op->out = slow_conn_move(t, op);
    op->flags = 0;
    t->in_flight--;
    return AW_READY;
}

static inline bool slow_conn_chance(struct slow_conn *t, unsigned one_in) {
    return one_in && test_random(t->random) % one_in == 0;
}

static inline aw_poll slow_conn_poll(aw_io *op, aw_cx *cx) {
    struct slow_conn *t = (struct slow_conn *)op->conn;
    if (!aw_cx_spend(cx)) return AW_PENDING;
    if (!op->flags) t->in_flight++, t->calls++;
    op->flags = 1;
    if (!slow_conn_chance(t, t->pends)) return slow_conn_finish(t, op);
    aw_waker_wake_by_ref(cx->waker);
    return AW_PENDING;
}

static inline aw_poll slow_conn_cancel(aw_io *op, aw_cx *cx) {
    struct slow_conn *t = (struct slow_conn *)op->conn;
    if (!op->flags) return AW_CANCELLED;
    if (slow_conn_chance(t, t->pends)) {
        aw_waker_wake_by_ref(cx->waker);
        return AW_PENDING;
    }
    if (slow_conn_chance(t, t->wins)) return slow_conn_finish(t, op);
    op->flags = 0;
    t->in_flight--;
    return AW_CANCELLED;
}

static inline void slow_conn_keep(aw_conn *c) {
    ((struct slow_conn *)c)->refs++;
}
static inline void slow_conn_drop(aw_conn *c) {
    CHECK_GT(((struct slow_conn *)c)->refs--, 0);
}
static inline void slow_conn_close(aw_conn *c) {
    ((struct slow_conn *)c)->closed = true;
}

static const aw_conn_type slow_conn_type = {
    .self_size = sizeof(aw_conn_type),
    .name = "slow_conn",
    .poll = slow_conn_poll,
    .cancel = slow_conn_cancel,
    .close = slow_conn_close,
    .keep = slow_conn_keep,
    .drop = slow_conn_drop,
};

/* Reads from `in`, and writes into `out`. Sizes and probabilities depend on the seed. */
static inline struct slow_conn slow_conn(uint64_t *random, const void *in, size_t in_size,
                                         void *out, size_t out_capacity) {
    unsigned max_bytes = 1u << test_random(random) % 12;
    return (struct slow_conn){.conn = {&slow_conn_type},
                              .random = random,
                              .max_bytes = max_bytes,
                              .pends = 1 + (unsigned)(test_random(random) % 4) + 1,
                              .wins = 2,
                              .in = in,
                              .in_size = in_size,
                              .out = out,
                              .out_capacity = out_capacity};
}

/* Runs a future to its end. Each step is, with a chance of 1 in `cancel_one_in`, its first cancel
 * (0: never). */
static inline aw_poll run_by_hand(aw_future *f, uint64_t *random, unsigned cancel_one_in) {
    static aw_flag flag;
    aw_poll r = AW_PENDING;
    for (bool cancel = false; r == AW_PENDING;) {
        cancel = cancel || (cancel_one_in && test_random(random) % cancel_one_in == 0);
        r = cancel ? cancel_by_hand(f, &flag) : poll_by_hand(f, &flag);
        CHECK(r != AW_PENDING || aw_flag_take(&flag));
    }
    return r;
}
#define DRIVE(f, random, cancel_one_in) run_by_hand(&(f)->future, random, cancel_one_in)

static inline void fill_random(char *to, size_t size, uint64_t *random) {
    for (size_t i = 0; i < size; i++)
        to[i] = (char)test_random(random);
}

#endif
