/* SPDX-License-Identifier: MIT
 *
 * A worker pool: jobs go through a channel with four slots to three workers, and the results come
 * back through a second channel.
 *
 * Both ends of a channel are reference counted. Each task drops its end when it is done. The last
 * sender to drop its end closes the channel, and the receivers end when the channel is empty. The
 * producer waits while all slots are full. */
#include <awake.h>
#include <stdio.h>

typedef AW_CHANNEL(int) numbers;

struct worker {
    AW_FRAME(int);
    numbers *jobs, *results;
    int n;
    aw_channel_future next;
};
AW_ASYNC_STATIC(worker) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->next, aw_channel_recv(self->jobs, &self->n));
        if (self->next.out < 0) break; /* -EPIPE: closed and empty */
        self->n *= self->n;
        AW_AWAIT(self->next, aw_channel_send(self->results, &self->n));
    }
    aw_channel_receiver_drop(self->jobs);
    aw_channel_sender_drop(self->results);
    AW_RETURN(0);
    AW_END;
}

struct producer {
    AW_FRAME(int);
    numbers *jobs;
    int n;
    aw_channel_future send;
};
AW_ASYNC_STATIC(producer) {
    AW_BEGIN;
    for (self->n = 1; self->n <= 30; self->n++)
        AW_AWAIT(self->send, aw_channel_send(self->jobs, &self->n));
    aw_channel_sender_drop(self->jobs);
    AW_RETURN(0);
    AW_END;
}

struct demo {
    AW_FRAME(int);
    numbers *jobs, *results;
    int square, count, sum;
    aw_channel_future result;
};
AW_ASYNC_STATIC(demo) {
    AW_BEGIN;
    self->jobs = aw_channel_new(numbers, 4);
    self->results = aw_channel_new(numbers, AW_UNBOUNDED);
    if (!self->jobs || !self->results) AW_RETURN(1);
    for (int i = 0; i < 3; i++) {
        aw_channel_receiver_keep(self->jobs);
        aw_channel_sender_keep(self->results);
        aw_task_drop(aw_spawn(AW_CALL(worker, .jobs = self->jobs, .results = self->results)));
    }
    aw_task_drop(aw_spawn(AW_CALL(producer, .jobs = self->jobs)));
    aw_channel_receiver_drop(self->jobs); /* this task only receives results */
    aw_channel_sender_drop(self->results);
    for (;;) {
        AW_AWAIT(self->result, aw_channel_recv(self->results, &self->square));
        if (self->result.out < 0) break;
        self->count++;
        self->sum += self->square;
    }
    printf("%d results, sum %d\n", self->count, self->sum);
    aw_channel_receiver_drop(self->results);
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(demo));
}
