/* SPDX-License-Identifier: MIT
 *
 * A future for each item, up to `limit` at once. The futures share one allocation with their wakers
 * (wakeset.h). So only woken futures are polled, and they may wait while no `next` waits for them.
 *
 * A slot is free, running or finished; `delivered` is the one with the output that the caller uses.
 * Outputs are delivered from the front of a queue of slots. If ordered, a slot is queued when it
 * starts, and delivered once it has finished. Otherwise it is queued when it finishes. */
#include <awake/map_concurrent.h>

#include <errno.h>

#include "base/allocate.h"
#include "combinators/wakeset.h"
#include "context/context.h"
#include "task/task_borrows.h"

typedef struct aw__concurrent concurrent;

typedef struct flight_slot {
    struct flight_slot *next; /* in the free list or in the queue */
    uint32_t index;
    bool runs;
} flight_slot;

typedef struct aw__flight {
    aw_future future; /* stands for all futures in reports: see flight_child */
    aw_stream *stream;
    aw__wakeset *ws;
    flight_slot *free, *first, *last, *delivered;
    uint32_t capacity, running;
    int error; /* of the source, reported after all outputs */
    bool ended, closing;
} flight;

enum {
    FLIGHT_SLOT_HEAD = (sizeof(flight_slot) + 15) & ~15,
    FLIGHT_HEAD = (sizeof(flight) + 15) & ~15,
    LIMIT_MAX = 1 << 30
};

static const struct aw__starts *concurrent_starts(const aw_stream *s) {
    return s->type->extra;
}
static flight_slot *flight_slot_at(const flight *fl, uint32_t i) {
    size_t size = FLIGHT_SLOT_HEAD + ((concurrent_starts(fl->stream)->size + 15) & ~(size_t)15);
    return (flight_slot *)(void *)((char *)(uintptr_t)fl + FLIGHT_HEAD + i * size);
}
static aw_future *slot_future(flight_slot *s) {
    return (aw_future *)(void *)((char *)s + FLIGHT_SLOT_HEAD);
}

static const aw_future *flight_child(const aw_future *self, size_t n) {
    const flight *fl = (const flight *)self;
    for (uint32_t i = 0; i < fl->capacity; i++) {
        flight_slot *s = flight_slot_at(fl, i);
        if (s->runs && n-- == 0) return slot_future(s);
    }
    return NULL;
}
static const aw_future_type flight_type = {
    .self_size = sizeof(aw_future_type), .name = "buffered", .child = flight_child};

/* ---- Allocation ------------------------------------------------------------------------------ */

static void free_slot(flight *fl, flight_slot *s) {
    s->next = fl->free;
    fl->free = s;
}

static int make_flight(concurrent *c, aw_cx *cx) {
    size_t size = FLIGHT_SLOT_HEAD + ((concurrent_starts(&c->stream)->size + 15) & ~(size_t)15);
    if (c->limit == 0) return -EINVAL;
    if (c->limit > LIMIT_MAX || size > SIZE_MAX / 4 / c->limit) return -ENOMEM;
    aw__wakeset *ws = aw__wakeset_new(aw__allocator_for(aw_cx_runtime(cx)), c->limit,
                                      FLIGHT_HEAD + c->limit * size);
    if (!ws) return -ENOMEM;
    flight *fl = aw__wakeset_extra(ws);
    *fl = (flight){.future = AW_FUTURE_INIT(&flight_type),
                   .stream = &c->stream,
                   .ws = ws,
                   .capacity = c->limit};
    for (uint32_t i = c->limit; i-- > 0;) {
        flight_slot *s = flight_slot_at(fl, i);
        *s = (flight_slot){.index = i};
        free_slot(fl, s);
    }
    c->flight = fl;
    aw__borrow_begin(&c->borrow, &fl->future, cx);
    return 0;
}

static void free_flight(concurrent *c, aw_cx *cx) {
    aw__borrow_end(&c->borrow, cx);
    aw__wakeset_drop(c->flight->ws);
    c->flight = NULL;
}

/* ---- Queue ----------------------------------------------------------------------------------- */

static void enqueue_slot(flight *fl, flight_slot *s) {
    s->next = NULL;
    if (fl->first)
        fl->last->next = s;
    else
        fl->first = s;
    fl->last = s;
}

static flight_slot *dequeue_slot(flight *fl) {
    flight_slot *s = fl->first;
    fl->first = s->next;
    return s;
}

static bool can_deliver(const flight *fl) {
    return fl->first && !fl->first->runs;
}

/* ---- Run ------------------------------------------------------------------------------------- */

/* Starts a future in each free slot, while the source has items. */
static void start_futures(concurrent *c, aw_cx *cx) {
    flight *fl = c->flight;
    while (fl->free && !fl->ended && !fl->error) {
        int out;
        c->waiting = aw_stream_poll_next(c->source, cx, &out) == AW_PENDING;
        if (c->waiting) return;
        if (out <= 0) {
            fl->ended = out == 0;
            fl->error = out;
            return;
        }
        flight_slot *s = fl->free;
        fl->free = s->next;
        s->runs = true;
        fl->running++;
        concurrent_starts(&c->stream)->start(&c->stream, slot_future(s));
        if (c->ordered) enqueue_slot(fl, s);
        aw__wakeset_add(fl->ws, s->index);
    }
}

/* Polls the woken futures. Those left when the budget is used up stay woken. */
static void poll_woken(concurrent *c, aw_cx *cx) {
    flight *fl = c->flight;
    aw__wakeset_poll p;
    int64_t i;
    aw__wakeset_begin(fl->ws, &p, cx);
    while (p.cx.meter->budget && (i = aw__wakeset_next(&p)) >= 0) {
        flight_slot *s = flight_slot_at(fl, (uint32_t)i);
        if (!s->runs || aw_future_poll(slot_future(s), &p.cx) == AW_PENDING) continue;
        s->runs = false;
        fl->running--;
        if (!c->ordered) enqueue_slot(fl, s);
    }
    aw__wakeset_end(&p, can_deliver(fl) ? 0 : fl->running, &fl->future);
}

/* No `next` waits any more: wakes are remembered. True: the source has something. */
static bool concurrent_stop_waiting(concurrent *c, aw_cx *cx) {
    aw__wakeset_disarm(c->flight->ws, cx);
    aw__wakeset_orphan(c->flight->ws);
    bool arrived = c->waiting && aw_stream_disarm(c->source, cx);
    c->waiting = false;
    return arrived;
}

/* Delivers the front of the queue: 1. An output that is an error is returned instead, and its slot
 * is free at once. */
static int deliver_first(concurrent *c) {
    flight *fl = c->flight;
    flight_slot *s = dequeue_slot(fl);
    int error = c->errors ? aw_future_error(slot_future(s)) : 0;
    if (error) {
        free_slot(fl, s);
        return error;
    }
    fl->delivered = s;
    c->item = (char *)slot_future(s) + concurrent_starts(&c->stream)->out_at;
    return 1;
}

aw_poll aw__concurrent_next(aw_stream *s, aw_cx *cx, int *out) {
    concurrent *c = (concurrent *)s;
    if (!c->flight && (*out = make_flight(c, cx)) < 0) return AW_READY;
    flight *fl = c->flight;
    if (fl->delivered) free_slot(fl, fl->delivered);
    fl->delivered = NULL;
    start_futures(c, cx);
    poll_woken(c, cx);
    if (can_deliver(fl)) {
        concurrent_stop_waiting(c, cx);
        *out = deliver_first(c);
        return AW_READY;
    }
    if (fl->running || !(fl->ended || fl->error)) return AW_PENDING;
    concurrent_stop_waiting(c, cx);
    *out = fl->error;
    fl->error = 0;
    if (fl->ended) free_flight(c, cx);
    return AW_READY;
}

bool aw__concurrent_disarm(aw_stream *s, aw_cx *cx) {
    concurrent *c = (concurrent *)s;
    return c->flight && concurrent_stop_waiting(c, cx);
}

/* ---- Close and drop -------------------------------------------------------------------------- */

/* Discards finished outputs, and marks each running future as woken, so that it is cancelled. */
static void begin_close(flight *fl) {
    fl->closing = true;
    for (flight_slot *s = fl->first; s; s = s->next)
        if (!s->runs) aw_future_discard(slot_future(s));
    fl->first = NULL;
    for (uint32_t i = 0; i < fl->capacity; i++)
        if (flight_slot_at(fl, i)->runs) aw__wakeset_add(fl->ws, i);
}

static void cancel_running(flight *fl, aw_cx *cx) {
    aw__wakeset_poll p;
    int64_t i;
    aw__wakeset_begin(fl->ws, &p, cx);
    while ((i = aw__wakeset_next(&p)) >= 0) {
        flight_slot *s = flight_slot_at(fl, (uint32_t)i);
        if (!s->runs) continue;
        aw_poll r = aw_future_cancel(slot_future(s), &p.cx);
        if (r == AW_PENDING) continue;
        if (r == AW_READY) aw_future_discard(slot_future(s));
        s->runs = false;
        fl->running--;
    }
    aw__wakeset_end(&p, fl->running, &fl->future);
}

aw_poll aw__concurrent_close(aw_stream *s, aw_cx *cx) {
    concurrent *c = (concurrent *)s;
    if (c->flight) {
        if (!c->flight->closing) begin_close(c->flight);
        cancel_running(c->flight, cx);
        if (c->flight->running) return AW_PENDING;
        concurrent_stop_waiting(c, cx);
        free_flight(c, cx);
    }
    return aw_stream_poll_close(c->source, cx);
}

/* An output that was moved is no longer in its future, which cannot release it. */
void aw__concurrent_drop(aw_stream *s, void *item) {
    concurrent *c = (concurrent *)s;
    if (item == c->item && c->flight && c->flight->delivered)
        aw_future_discard(slot_future(c->flight->delivered));
}

const aw_future *aw__concurrent_child(const aw_stream *s, size_t i) {
    const concurrent *c = (const concurrent *)s;
    const aw_future *child = c->flight ? flight_child(&c->flight->future, i) : NULL;
    if (child) return child;
    return aw_stream_child(c->source, c->flight ? i - c->flight->running : i);
}
