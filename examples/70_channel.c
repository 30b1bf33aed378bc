/* SPDX-License-Identifier: MIT
 *
 * Work for whoever is free: jobs go through a channel with four slots to three workers, and the results come back
 * through another one.
 *
 * Both are counted: everybody drops its side when it is done, the last sender closes the channel by that, and the receivers
 * end when nothing is left inside. Who makes the jobs waits while all slots are full. */
#include <awake.h>
#include <stdio.h>

typedef AW_CHANNEL(int) numbers;

AW_ASYNC(int, worker, numbers *jobs; numbers * results; int n; aw_channel_future next;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->next, aw_channel_recv(self->jobs, &self->n));
        if (self->next.out < 0) break; /* -EPIPE: all is done */
        self->n *= self->n;
        AW_AWAIT(self->next, aw_channel_send(self->results, &self->n));
    }
    aw_channel_receiver_drop(self->jobs);
    aw_channel_sender_drop(self->results);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, makes_jobs, numbers *jobs; int n; aw_channel_future send;) {
    AW_BEGIN;
    for (self->n = 1; self->n <= 30; self->n++)
        AW_AWAIT(self->send, aw_channel_send(self->jobs, &self->n));
    aw_channel_sender_drop(self->jobs);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, demo, numbers *jobs; numbers * results; int square, count, sum;
         aw_channel_future result;) {
    AW_BEGIN;
    self->jobs = aw_channel_new(numbers, 4);
    self->results = aw_channel_new(numbers, AW_UNBOUNDED);
    if (!self->jobs || !self->results) AW_RETURN(1);
    for (int i = 0; i < 3; i++) {
        aw_channel_receiver_clone(self->jobs);
        aw_channel_sender_clone(self->results);
        aw_task_drop(aw_spawn(AW_CALL(worker, .jobs = self->jobs, .results = self->results)));
    }
    aw_task_drop(aw_spawn(AW_CALL(makes_jobs, .jobs = self->jobs)));
    aw_channel_receiver_drop(self->jobs); /* the rest is for others */
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
