/* SPDX-License-Identifier: MIT
 *
 * Chunks: items are gathered until there are enough or the time is up. The source is asked before the clock, so an
 * item that is there at the deadline still belongs to the chunk. What was gathered stays, and so does the deadline,
 * when nobody waits; the timer is made anew. */
#include <awake/merge.h>

#include <string.h>

static struct aw__chunks *chunks_of(const aw_stream *s) {
    return (struct aw__chunks *)(uintptr_t)s - 1;
}
static size_t *count_of(const aw_stream *s) {
    return (size_t *)(void *)((char *)(uintptr_t)s + chunks_of(s)->room_at);
}
static char *item_at(const aw_stream *s, size_t i) {
    return (char *)(uintptr_t)s + chunks_of(s)->items_at + i * chunks_of(s)->size;
}

static uint64_t add_saturating(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* ---- The clock -------------------------------------------------------------------------------- */

static bool timer_runs(const struct aw__chunks *c) {
    return aw_future_started(&c->timer.future) && !aw_future_ended(&c->timer.future);
}

/* True: it had fired. A sleep is gone at its first cancel. */
static bool stop_timer(struct aw__chunks *c, aw_cx *cx) {
    return timer_runs(c) && aw_future_cancel(&c->timer.future, cx) == AW_READY;
}

/* Costs nothing: a source that has used up the budget must not keep the deadline from being seen. */
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

/* ---- Gathering -------------------------------------------------------------------------------- */

static void add_item(aw_stream *s, aw_cx *cx) {
    struct aw__chunks *c = chunks_of(s);
    size_t *count = count_of(s);
    if (*count == 0 && c->timeout != AW_FOREVER)
        c->deadline = add_saturating(aw_now(aw_cx_runtime(cx)), c->timeout);
    memcpy(item_at(s, (*count)++), *aw__stream_item(c->source), c->size);
}

/* Until the chunk is full, or the source has no more for now: then false. */
static bool gather(aw_stream *s, aw_cx *cx) {
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

/* Nothing waits any more: true when something came in this moment. */
static bool rest(struct aw__chunks *c, aw_cx *cx) {
    bool came = stop_timer(c, cx);
    if (c->waiting) came |= aw_stream_rest(c->source, cx);
    c->waiting = false;
    return came;
}

static aw_poll chunks_next(aw_stream *s, aw_cx *cx, int *out) {
    struct aw__chunks *c = chunks_of(s);
    size_t *count = count_of(s);
    if (c->taken) *count = 0;
    c->taken = false;
    if (!gather(s, cx)) {
        if (!*count || !time_is_up(c, cx)) return AW_PENDING;
        if (c->timer.out) { /* there is no clock */
            *out = c->timer.out;
            rest(c, cx);
            return AW_READY;
        }
    }
    rest(c, cx);
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

static bool chunks_rest(aw_stream *s, aw_cx *cx) {
    return rest(chunks_of(s), cx);
}

/* ---- Giving up -------------------------------------------------------------------------------- */

/* A chunk is moved as a whole: its items are as far behind its count as here. */
static void chunks_drop(aw_stream *s, void *chunk) {
    struct aw__chunks *c = chunks_of(s);
    size_t count = *(size_t *)chunk;
    char *items = (char *)chunk + (c->items_at - c->room_at);
    for (size_t i = 0; i < count; i++)
        aw_stream_drop_item(c->source, items + i * c->size);
}

static aw_poll chunks_close(aw_stream *s, aw_cx *cx) {
    struct aw__chunks *c = chunks_of(s);
    stop_timer(c, cx);
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
    .rest = chunks_rest,
    .close = chunks_close,
    .drop = chunks_drop,
    .child = chunks_child,
};

void aw__stream_chunks(aw_stream *s, aw_stream *source, uint64_t timeout, size_t size,
                       size_t capacity, size_t room_at, size_t items_at) {
    aw__stream_init(s, &chunks_type);
    *chunks_of(s) = (struct aw__chunks){.timeout = timeout,
                                        .timer = aw_sleep_for(0),
                                        .source = source,
                                        .size = size,
                                        .capacity = capacity,
                                        .room_at = (uint32_t)room_at,
                                        .items_at = (uint32_t)items_at};
    *count_of(s) = 0;
}
