/* SPDX-License-Identifier: MIT
 *
 * A channel as a stream: what it receives, and what it puts back. */
#include "support/by_hand.h"
#include "support/workers.h"

typedef AW_CHANNEL(int) numbers;

static void make(numbers *c, int count) {
    CHECK_EQ(aw_channel_init(c, 4), 0);
    for (int i = 1; i <= count; i++)
        CHECK_EQ(aw_channel_try_send(c, &i), 0);
}

static int released;
static void release(void *item) {
    released += *(int *)item;
}
AW_FILTER(even, int) {
    return *item % 2 == 0;
}
AW_TAKE_WHILE(below_two, int) {
    return *item < 2;
}

TEST(it_gives_what_is_received_and_ends_when_the_channel_is_closed_and_empty) {
    numbers c;
    make(&c, 2);
    aw_channel_close(&c);
    AW_CHANNEL_STREAM(int) s;
    aw_stream_channel(&s, &c);
    aw_flag flag = {0};
    for (int i = 1; i <= 2; i++) {
        aw_stream_next_future f = aw_stream_next(&s);
        CHECK_EQ(POLL(&f, &flag), AW_READY);
        CHECK_EQ(f.out, 1);
        CHECK_EQ(*s.item, i);
    }
    aw_stream_next_future f = aw_stream_next(&s);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
    aw_channel_free(&c);
}

TEST(a_cancelled_next_takes_no_message) {
    numbers c;
    make(&c, 0);
    AW_CHANNEL_STREAM(int) s;
    aw_stream_channel(&s, &c);
    struct even e = AW_ADAPTER(even, &s);
    aw_flag flag = {0};
    aw_stream_next_future f = aw_stream_next(&e);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    int two = 2, got = 0;
    CHECK_EQ(aw_channel_try_send(&c, &two), 0); /* to this receiver */
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    CHECK_EQ(aw_channel_try_recv(&c, &got), 0); /* now to another */
    CHECK_EQ(got, 2);
    f = aw_stream_next(&e);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    aw_channel_free(&c);
}

TEST(a_channel_that_was_closed_first_is_the_result_of_a_cancel) {
    numbers c;
    make(&c, 0);
    AW_CHANNEL_STREAM(int) s;
    aw_stream_channel(&s, &c);
    struct even e = AW_ADAPTER(even, &s);
    aw_flag flag = {0};
    aw_stream_next_future f = aw_stream_next(&e);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_channel_close(&c);
    CHECK_EQ(CANCEL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
    aw_channel_free(&c);
}

TEST(what_is_put_back_goes_to_the_front_of_the_channel) {
    numbers c;
    make(&c, 3);
    AW_CHANNEL_STREAM(int) s;
    aw_stream_channel(&s, &c);
    aw_flag flag = {0};
    aw_stream_next_future f = aw_stream_next(&s);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    aw_future_discard(&f.future);
    int got = 0;
    CHECK_EQ(aw_channel_try_recv(&c, &got), 0);
    CHECK_EQ(got, 1);
    /* The same for an item that a take_while rejected. */
    struct below_two b = AW_ADAPTER(below_two, &s);
    f = aw_stream_next(&b);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
    CHECK_EQ(aw_channel_len(&c), 2);
    CHECK_EQ(aw_channel_try_recv(&c, &got), 0);
    CHECK_EQ(got, 2);
    aw_channel_free(&c);
}

TEST(what_is_dropped_is_released_as_the_channel_says) {
    numbers c;
    make(&c, 3);
    aw_channel_set_release(&c, release);
    AW_CHANNEL_STREAM(int) s;
    aw_stream_channel(&s, &c);
    struct even e = AW_ADAPTER(even, &s);
    aw_flag flag = {0};
    aw_stream_next_future f = aw_stream_next(&e);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(*e.item, 2);
    CHECK_EQ(released, 1);
    aw_future_discard(&f.future);
    aw_stream_close_future close = aw_stream_close(&e);
    CHECK_EQ(POLL(&close, &flag), AW_READY);
    CHECK_EQ(released, 1 + 2);
    CHECK(!aw_channel_is_closed(&c)); /* others may go on using it */
    aw_channel_free(&c);
    CHECK_EQ(released, 1 + 2 + 3);
}

/* ---- Between tasks --------------------------------------------------------------------------- */

enum { SENDERS = 3, EACH = 500 };

static numbers shared[2];

AW_ASYNC(int, sender, int index; int i; int value; aw_channel_future send;) {
    AW_BEGIN;
    for (self->i = 0; self->i < EACH; self->i++) {
        self->value = self->index * EACH + self->i;
        AW_AWAIT(self->send, aw_channel_send(&shared[self->i % 2], &self->value));
        CHECK_EQ(self->send.out, 0);
    }
    aw_channel_sender_drop(&shared[0]);
    aw_channel_sender_drop(&shared[1]);
    AW_RETURN(0);
    AW_END;
}
/* Two channels merged, in chunks, with timeouts now and then. */
AW_ASYNC(int, receiver, AW_CHANNEL_STREAM(int) a, b; AW_MERGE(int, 2) m; AW_CHUNKS(int, 5) c;
         AW_TIMEOUT(aw_stream_next_future) next; bool seen[SENDERS * EACH]; int n;) {
    AW_BEGIN;
    aw_stream_channel(&self->a, &shared[0]);
    aw_stream_channel(&self->b, &shared[1]);
    aw_stream_merge(&self->m, &self->a, &self->b);
    aw_stream_chunks(&self->c, &self->m, AW_USEC(50));
    do {
        AW_AWAIT_FOR(self->next, AW_USEC(10), aw_stream_next(&self->c));
        if (self->next.out || !self->next.inner.out) continue;
        for (size_t i = 0; i < self->c.item->count; i++) {
            int v = self->c.item->items[i];
            CHECK(!self->seen[v]);
            CHECK(v % EACH < 2 || self->seen[v - 2]); /* in order within one sender and channel */
            self->seen[v] = true;
            self->n++;
        }
    } while (self->next.out || self->next.inner.out);
    AW_RETURN(self->n);
    AW_END;
}
ON_BOTH(messages_of_several_senders_come_out_once_and_in_order) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(aw_channel_init(&shared[i], 7), 0);
        for (int k = 1; k < SENDERS; k++)
            aw_channel_sender_keep(&shared[i]);
    }
    struct sender *senders[SENDERS];
    for (int i = 0; i < SENDERS; i++)
        senders[i] = aw_spawn_on(rt, AW_CALL(sender, .index = i));
    CHECK_EQ(RUN(rt, AW_CALL(receiver)), SENDERS * EACH);
    for (int i = 0; i < SENDERS; i++) {
        CHECK_EQ(JOIN_STATUS(rt, senders[i]), 0);
        aw_task_drop(senders[i]);
    }
    for (int i = 0; i < 2; i++)
        aw_channel_free(&shared[i]);
    workers_end(rt, NULL);
}

TEST(trying_gives_what_is_there_and_takes_nothing_else) {
    numbers c;
    AW_CHANNEL_STREAM(int) s;
    make(&c, 0);
    aw_stream_channel(&s, &c);
    CHECK_EQ(aw_stream_try_next(&s), -EAGAIN);
    for (int i = 1; i < 3; i++)
        CHECK_EQ(aw_channel_try_send(&c, &i), 0);
    CHECK_EQ(aw_stream_try_next(&s), 1);
    CHECK_EQ(*s.item, 1);
    CHECK_EQ(aw_channel_len(&c), 1);
    CHECK_EQ(aw_stream_try_next(&s), 1);
    CHECK_EQ(aw_stream_try_next(&s), -EAGAIN);
    aw_channel_close(&c);
    CHECK_EQ(aw_stream_try_next(&s), 0);
    aw_channel_free(&c);
}
