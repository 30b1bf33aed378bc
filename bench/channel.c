/* SPDX-License-Identifier: MIT
 *
 * Channels: messages from one, four and sixteen senders to one receiver, with small and large
 * capacity; ping-pong between two tasks; a oneshot; a broadcast to eight receivers; a watched value
 * with a thousand watchers. */
#include "bench.h"

#include <errno.h>

typedef AW_CHANNEL(uint64_t) numbers;

/* ---- Many to one ----------------------------------------------------------------------------- */

AW_ASYNC(int, sender, numbers *c; uint64_t n, left; aw_channel_future send;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        self->n = self->left;
        AW_AWAIT(self->send, aw_channel_send(self->c, &self->n));
    }
    aw_channel_sender_drop(self->c);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(uint64_t, receiver, numbers *c; uint64_t sum, n; aw_channel_future recv;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->recv, aw_channel_recv(self->c, &self->n));
        if (self->recv.out < 0) break;
        self->sum += self->n;
    }
    aw_channel_receiver_drop(self->c);
    AW_RETURN(self->sum);
    AW_END;
}

AW_ASYNC(int, many_to_one, numbers *c; uint64_t senders, each; struct receiver recv;) {
    AW_BEGIN;
    for (uint64_t i = 0; i < self->senders; i++) {
        aw_channel_sender_keep(self->c);
        aw_task_drop(aw_spawn(AW_CALL(sender, .c = self->c, .left = self->each)));
    }
    aw_channel_sender_drop(self->c);
    AW_AWAIT(self->recv, AW_CALL(receiver, .c = self->c));
    AW_RETURN(self->recv.out == self->senders * (self->each * (self->each + 1) / 2));
    AW_END;
}

static void bench_many_to_one(const char *name, uint64_t senders, size_t capacity,
                              uint64_t messages) {
    numbers *c = aw_channel_new(numbers, capacity);
    bench_check(c != NULL, "a channel");
    uint64_t start = bench_now(), each = messages / senders;
    bench_check(bench_run(AW_CALL(many_to_one, .c = c, .senders = senders, .each = each)),
                "every message is received once");
    double seconds = (double)(bench_now() - start) / 1e9;
    bench_report(name, (double)(each * senders) / seconds / 1e6, "M/s");
}

/* ---- Ping-pong ------------------------------------------------------------------------------- */

enum { ROUNDS = 500000 };
static numbers ping, pong;

AW_ASYNC(int, echo, uint64_t n; aw_channel_future f;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->f, aw_channel_recv(&ping, &self->n));
        if (self->f.out < 0) AW_RETURN(0);
        AW_AWAIT(self->f, aw_channel_send(&pong, &self->n));
    }
    AW_END;
}

AW_ASYNC(int, call, uint64_t n, back; struct echo * echo; aw_channel_future f;
         aw_task_join_future join;) {
    AW_BEGIN;
    self->echo = aw_spawn(AW_CALL(echo));
    for (self->n = 0; self->n < ROUNDS; self->n++) {
        AW_AWAIT(self->f, aw_channel_send(&ping, &self->n));
        AW_AWAIT(self->f, aw_channel_recv(&pong, &self->back));
        bench_check(self->back == self->n, "what was sent comes back");
    }
    aw_channel_close(&ping);
    AW_AWAIT(self->join, aw_task_join(self->echo));
    AW_RETURN(aw_task_take(self->echo));
    AW_END;
}

static void bench_ping_pong(void) {
    bench_check(aw_channel_init(&ping, 1) == 0 && aw_channel_init(&pong, 1) == 0, "two channels");
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(call)) == 0, "every message is answered");
    bench_report_each("ping-pong", start, ROUNDS);
    aw_channel_free(&ping);
    aw_channel_free(&pong);
}

/* ---- Oneshot --------------------------------------------------------------------------------- */

typedef AW_ONESHOT(uint64_t) reply;

AW_ASYNC(int, answers, reply *reply;) {
    AW_BEGIN;
    AW_RETURN(aw_oneshot_send(self->reply, 1));
    AW_END;
}

/* Includes spawn, run and drop of the task that answers. */
AW_ASYNC(long, asks, uint64_t n, sum; reply reply; aw_oneshot_future recv;) {
    AW_BEGIN;
    for (self->n = 0; self->n < ROUNDS; self->n++) {
        self->reply = (reply)AW_ONESHOT_INIT;
        aw_task_drop(aw_spawn(AW_CALL(answers, .reply = &self->reply)));
        AW_AWAIT(self->recv, aw_oneshot_recv(&self->reply));
        self->sum += self->reply.value;
    }
    AW_RETURN((long)self->sum);
    AW_END;
}

static void bench_oneshot(void) {
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(asks)) == ROUNDS, "every question is answered");
    bench_report_each("oneshot", start, ROUNDS);
}

/* ---- One to many ----------------------------------------------------------------------------- */

enum { RECEIVERS = 8, MESSAGES = 200000, WATCHERS = 1000, CHANGES = 300 };

static AW_BROADCAST(uint64_t) broadcast;

AW_ASYNC(uint64_t, listens, uint64_t n, all; aw_broadcast_receiver r; aw_broadcast_future recv;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->recv, aw_broadcast_recv(&broadcast, &self->r, &self->n));
        if (self->recv.out == -EPIPE) break;
        self->all += self->recv.out == 0 ? 1 : self->r.lag;
    }
    aw_broadcast_unsubscribe(&broadcast, &self->r);
    AW_RETURN(self->all);
    AW_END;
}

AW_ASYNC(long, speaks, uint64_t n, all; int i; struct listens * h[RECEIVERS];
         aw_task_join_future join;) {
    AW_BEGIN;
    for (self->i = 0; self->i < RECEIVERS; self->i++)
        self->h[self->i] = aw_spawn(AW_CALL(listens, .r = aw_broadcast_subscribe(&broadcast)));
    for (self->n = 0; self->n < MESSAGES; self->n++) {
        aw_broadcast_send(&broadcast, &self->n);
        if (self->n % 64 == 0) AW_YIELD;
    }
    aw_broadcast_sender_drop(&broadcast);
    for (self->i = 0; self->i < RECEIVERS; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->h[self->i]));
        self->all += aw_task_take(self->h[self->i]);
    }
    AW_RETURN((long)self->all);
    AW_END;
}

static void bench_broadcast(void) {
    bench_check(aw_broadcast_init(&broadcast, 1024) == 0, "a broadcast");
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(speaks)) == (long)MESSAGES * RECEIVERS,
                "all receive or miss everything");
    bench_report_each("broadcast-1-8", start, (double)MESSAGES * RECEIVERS);
    aw_broadcast_free(&broadcast);
}

static AW_WATCH(uint64_t) watched;
static AW_CHANNEL(char) seen;

AW_ASYNC(int, watcher, uint64_t now; aw_watch_receiver r; aw_watch_future changed; char c;
         aw_channel_future send;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->changed, aw_watch_changed(&self->r));
        if (self->changed.out < 0) break;
        aw_watch_get(&watched, &self->now);
        AW_AWAIT(self->send, aw_channel_send(&seen, &self->c));
    }
    aw_watch_unsubscribe(&self->r);
    AW_RETURN(0);
    AW_END;
}

/* Every change is seen by all watchers before the next one. */
AW_ASYNC(int, changes, uint64_t n; int i; char c[64]; aw_channel_future recv;
         aw_watch_future closed;) {
    AW_BEGIN;
    for (self->i = 0; self->i < WATCHERS; self->i++)
        aw_task_drop(aw_spawn(AW_CALL(watcher, .r = aw_watch_subscribe(&watched))));
    for (self->n = 1; self->n <= CHANGES; self->n++) {
        aw_watch_send(&watched, &self->n);
        for (self->i = 0; self->i < WATCHERS; self->i += self->recv.out)
            AW_AWAIT(self->recv, aw_channel_recv_many(&seen, self->c, sizeof self->c));
    }
    aw_watch_sender_drop(&watched);
    AW_AWAIT(self->closed, aw_watch_closed(&watched));
    AW_RETURN(self->i);
    AW_END;
}

static void bench_watch(void) {
    uint64_t zero = 0;
    aw_watch_init(&watched, &zero);
    bench_check(aw_channel_init(&seen, WATCHERS) == 0, "a channel");
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(changes)) == WATCHERS, "every watcher sees each change");
    bench_report("watch-1-1000", (double)(bench_now() - start) / 1e3 / CHANGES, "us");
    aw_channel_free(&seen);
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    bench_many_to_one("1-1-bounded-1", 1, 1, 2000000);
    bench_many_to_one("4-1-bounded-1", 4, 1, 2000000);
    bench_many_to_one("16-1-bounded-1", 16, 1, 2000000);
    bench_many_to_one("1-1-bounded-1024", 1, 1024, 8000000);
    bench_many_to_one("4-1-bounded-1024", 4, 1024, 8000000);
    bench_many_to_one("16-1-bounded-1024", 16, 1024, 8000000);
    bench_many_to_one("1-1-unbounded", 1, AW_UNBOUNDED, 8000000);
    bench_many_to_one("4-1-unbounded", 4, AW_UNBOUNDED, 8000000);
    bench_many_to_one("16-1-unbounded", 16, AW_UNBOUNDED, 8000000);
    bench_ping_pong();
    bench_oneshot();
    bench_broadcast();
    bench_watch();
    bench_report("bytes-empty", sizeof(numbers), "B");
    bench_report("bytes-bounded-1024", sizeof(numbers) + 1025 * sizeof(uint64_t), "B");
}
