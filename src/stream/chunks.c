/* SPDX-License-Identifier: MIT
 *
 * Chunks: items are gathered until the chunk is full or its time is over. The source is polled
 * before the clock, so an item that is there at the deadline belongs to the chunk. The items and
 * the deadline stay when no `next` waits; the timer is recreated. */
#include <awake/merge.h>

#include <string.h>

#include "time/timer_math.h"

static struct aw__chunks *chunks_of(const aw_stream *s) {
    return (struct aw__chunks *)(uintptr_t)s - 1;
}
static size_t *count_of(const aw_stream *s) {
    return (size_t *)(void *)((char *)(uintptr_t)s + chunks_of(s)->storage_at);
}
static char *chunks_item(const aw_stream *s, size_t i) {
    return (char *)(uintptr_t)s + chunks_of(s)->items_at + i * chunks_of(s)->size;
}

/* ---- Clock ----------------------------------------------------------------------------------- */

static bool timer_runs(const struct aw__chunks *c) {
    return aw_future_started(&c->timer.future) && !aw_future_ended(&c->timer.future);
}

/* True: it had fired. A sleep ends at its first cancel. */
static bool chunks_stop_timer(struct aw__chunks *c, aw_cx *cx) {
    return timer_runs(c) && aw_future_cancel(&c->timer.future, cx) == AW_READY;
}

/* Spends no budget: a source that has used up the budget must not hide the deadline. */
static bool time_is_up(struct aw__chunks *c, aw_cx *cx) {
    if (c->timeout == AW_FOREVER) return false;
    if (!timer_runs(c)) c->timer = aw_sleep_until(c->deadline);
    aw__meter *meter = cx->meter;
    uint32_t budget = meter ? meter->budget : 0;
    if (meter && !budget) meter->budget = 1;
    aw_poll r = aw_future_poll(&c->timer.future, cx);
    if (meter) meter->budget = budget;
    return r == AW_READY;
}

/* ---- Gather ---------------------------------------------------------------------------------- */

static void add_item(aw_stream *s, aw_cx *cx) {
    struct aw__chunks *c = chunks_of(s);
    size_t *count = count_of(s);
    if (*count == 0 && c->timeout != AW_FOREVER)
        c->deadline = aw__time_add(aw_now(aw_cx_runtime(cx)), c->timeout);
    memcpy(chunks_item(s, (*count)++), *aw__stream_item(c->source), c->size);
}

/* True: the chunk is full, or the source has ended or failed. False: the source is pending. */
static bool chunks_gather(aw_stream *s, aw_cx *cx) {
    struct aw__chunks *c = chunks_of(s);
    while (*count_of(s) < c->capacity && !c->ended && !c->error) {
        int out;
        c->waiting = aw_stream_poll_next(c->source, cx, &out) == AW_PENDING;
        if (c->waiting) return false;
        if (out > 0)
            add_item(s, cx);
        else if (out == 0)
            c->ended = true;
        else
            c->error = out;
    }
    return true;
}

/* Keeps no waker. True: the time is over, or the source has something. */
static bool chunks_stop_waiting(struct aw__chunks *c, aw_cx *cx) {
    bool arrived = chunks_stop_timer(c, cx);
    if (c->waiting) arrived |= aw_stream_disarm(c->source, cx);
    c->waiting = false;
    return arrived;
}

static aw_poll chunks_next(aw_stream *s, aw_cx *cx, int *out) {
    struct aw__chunks *c = chunks_of(s);
    size_t *count = count_of(s);
    if (c->taken) *count = 0;
    c->taken = false;
    if (!chunks_gather(s, cx)) {
        if (!*count || !time_is_up(c, cx)) return AW_PENDING;
        if (c->timer.out) { /* no runtime, so no clock */
            *out = c->timer.out;
            chunks_stop_waiting(c, cx);
            return AW_READY;
        }
    }
    chunks_stop_waiting(c, cx);
    if (*count) {
        c->taken = true;
        *aw__stream_item(s) = count;
        *out = 1;
    } else {
        *out = c->error;
        c->error = 0;
    }
    return AW_READY;
}

static bool chunks_disarm(aw_stream *s, aw_cx *cx) {
    return chunks_stop_waiting(chunks_of(s), cx);
}

/* ---- Drop and close -------------------------------------------------------------------------- */

/* A chunk is moved as a whole: the distance from count to items is the same as in the stream. */
static void chunks_drop(aw_stream *s, void *chunk) {
    struct aw__chunks *c = chunks_of(s);
    size_t count = *(size_t *)chunk;
    char *items = (char *)chunk + (c->items_at - c->storage_at);
    for (size_t i = 0; i < count; i++)
        aw_stream_drop_item(c->source, items + i * c->size);
}

static aw_poll chunks_close(aw_stream *s, aw_cx *cx) {
    struct aw__chunks *c = chunks_of(s);
    chunks_stop_timer(c, cx);
    if (!c->taken) chunks_drop(s, count_of(s));
    c->taken = true;
    return aw_stream_poll_close(c->source, cx);
}

static const aw_future *chunks_child(const aw_stream *s, size_t i) {
    const struct aw__chunks *c = chunks_of(s);
    const aw_future *child = aw_stream_child(c->source, i);
    if (child || !timer_runs(c)) return child;
    return i == 0 || aw_stream_child(c->source, i - 1) ? &c->timer.future : NULL;
}

static const aw_stream_type chunks_type = {
    .self_size = sizeof(aw_stream_type),
    .name = "chunks",
    .next = chunks_next,
    .disarm = chunks_disarm,
    .close = chunks_close,
    .drop = chunks_drop,
    .child = chunks_child,
};

void aw__stream_chunks(aw_stream *s, aw_stream *source, uint64_t timeout, size_t size,
                       size_t capacity, size_t storage_at, size_t items_at) {
    aw__stream_init(s, &chunks_type);
    *chunks_of(s) = (struct aw__chunks){.timeout = timeout,
                                        .timer = aw_sleep_for(0),
                                        .source = source,
                                        .size = size,
                                        .capacity = capacity,
                                        .storage_at = (uint32_t)storage_at,
                                        .items_at = (uint32_t)items_at};
    *count_of(s) = 0;
}
