/* SPDX-License-Identifier: MIT
 *
 * A connection of the tests' own, which gives and takes a few bytes at a time, pends now and then, fails where it is told to, and
 * whose calls, when they are cancelled, take a while or finish all the same: as bad as a system may be, and by a seed. One
 * thread at a time. And a way to run a future over it by hand that cancels it at a random point. */
#ifndef AWAKE_TEST_TRICKLE_H
#define AWAKE_TEST_TRICKLE_H

#include <awake.h>

#include <string.h>

#include "support/by_hand.h"
#include "test.h"

struct trickle {
    aw_conn conn;
    uint64_t *random;
    /* What to do. */
    unsigned most;  /* bytes in one call; 0: all that is asked for */
    unsigned pends; /* one in so many polls finds nothing yet; 0: none */
    unsigned wins;  /* one in so many cancelled calls finishes all the same; 0: none */
    const char *in; /* what can be read; then comes the end, or an error, once */
    size_t in_size;
    int in_error;
    char *
        out; /* where it is written to; full, it gives the error once, and has twice the room then */
    size_t out_room;
    int out_error;
    /* What happened. */
    size_t in_at, out_size;
    int calls, flying, kept; /* flying: begun and not ended */
    bool shut, closed;
};

static inline size_t trickle_parts(aw_io *op, struct iovec *one, const struct iovec **parts) {
    bool many = op->wants == AW_IO_READV || op->wants == AW_IO_WRITEV;
    *one = (struct iovec){op->data, op->size};
    *parts = many ? op->data : one;
    return many ? op->size : 1;
}

static inline int trickle_move(struct trickle *t, aw_io *op) {
    struct iovec one;
    const struct iovec *parts;
    size_t count = trickle_parts(op, &one, &parts), asked = 0, moved = 0;
    bool reads = op->wants == AW_IO_READ || op->wants == AW_IO_READV;
    for (size_t i = 0; i < count; i++)
        asked += parts[i].iov_len;
    if (!asked) return 0;
    size_t left = reads ? t->in_size - t->in_at : t->out_room - t->out_size,
           n = t->most ? 1 + test_random(t->random) % t->most : asked;
    if (!left && reads) {
        int error = t->in_error;
        t->in_error = 0;
        return error;
    }
    if (!left) {
        CHECK(t->out_error);
        t->out_room *= 2;
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

static inline aw_poll trickle_finish(struct trickle *t, aw_io *op) {
    CHECK(!t->closed);
    op->out = 0;
    if (op->wants == AW_IO_SHUTDOWN)
        t->shut = true;
    else if (op->wants == AW_IO_WRITE && t->shut)
        op->out = -EPIPE;
    else
        op->out = trickle_move(t, op);
    op->has = 0;
    t->flying--;
    return AW_READY;
}

static inline bool trickle_chance(struct trickle *t, unsigned one_in) {
    return one_in && test_random(t->random) % one_in == 0;
}

static inline aw_poll trickle_poll(aw_io *op, aw_cx *cx) {
    struct trickle *t = (struct trickle *)op->conn;
    if (!aw_cx_spend(cx)) return AW_PENDING;
    if (!op->has) t->flying++, t->calls++;
    op->has = 1;
    if (!trickle_chance(t, t->pends)) return trickle_finish(t, op);
    aw_waker_wake_by_ref(cx->waker);
    return AW_PENDING;
}

static inline aw_poll trickle_cancel(aw_io *op, aw_cx *cx) {
    struct trickle *t = (struct trickle *)op->conn;
    if (!op->has) return AW_CANCELLED;
    if (trickle_chance(t, t->pends)) {
        aw_waker_wake_by_ref(cx->waker);
        return AW_PENDING;
    }
    if (trickle_chance(t, t->wins)) return trickle_finish(t, op);
    op->has = 0;
    t->flying--;
    return AW_CANCELLED;
}

static inline void trickle_keep(aw_conn *c) {
    ((struct trickle *)c)->kept++;
}
static inline void trickle_drop(aw_conn *c) {
    CHECK_GT(((struct trickle *)c)->kept--, 0);
}
static inline void trickle_close(aw_conn *c) {
    ((struct trickle *)c)->closed = true;
}

static const aw_conn_type trickle_type = {
    .self_size = sizeof(aw_conn_type),
    .name = "trickle",
    .poll = trickle_poll,
    .cancel = trickle_cancel,
    .close = trickle_close,
    .keep = trickle_keep,
    .drop = trickle_drop,
};

/* Reads `in`, and writes into `out`. How bad it is depends on the seed. */
static inline struct trickle trickle(uint64_t *random, const void *in, size_t in_size, void *out,
                                     size_t out_room) {
    unsigned most = 1u << test_random(random) % 12;
    return (struct trickle){.conn = {&trickle_type},
                            .random = random,
                            .most = most,
                            .pends = 1 + (unsigned)(test_random(random) % 4) + 1,
                            .wins = 2,
                            .in = in,
                            .in_size = in_size,
                            .out = out,
                            .out_room = out_room};
}

/* Runs a future to its end; one in so many of its steps is the last one before it is cancelled (0: none). */
static inline aw_poll run_by_hand(aw_future *f, uint64_t *random, unsigned cut_one_in) {
    static aw_flag flag;
    aw_poll r = AW_PENDING;
    for (bool cut = false; r == AW_PENDING;) {
        cut = cut || (cut_one_in && test_random(random) % cut_one_in == 0);
        r = cut ? cancel_by_hand(f, &flag) : poll_by_hand(f, &flag);
        CHECK(r != AW_PENDING || aw_flag_take(&flag));
    }
    return r;
}
#define DRIVE(f, random, cut_one_in) run_by_hand(&(f)->future, random, cut_one_in)

/* Bytes that are not the same wherever one looks. */
static inline void fill_random(char *to, size_t size, uint64_t *random) {
    for (size_t i = 0; i < size; i++)
        to[i] = (char)test_random(random);
}

#endif
