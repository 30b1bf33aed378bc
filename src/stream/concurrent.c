/* SPDX-License-Identifier: MIT
 *
 * A future for each item, so many at once. They lie in one block with the wakers that they are polled with
 * (wakeset.h), so that only those are polled that were woken, and so that they can wait while nobody waits for them.
 *
 * A slot is free, or runs, or has finished; `given` is the one whose output the caller has. Slots in the queue are
 * given out from its front: in order, a slot is queued when it starts, and given when it has finished; otherwise it
 * is queued when it finishes. */
#include <awake/buffered.h>

#include <errno.h>

#include "combinators/wakeset.h"
#include "core/alloc.h"
#include "runtime/opened.h"

typedef struct aw__concurrent concurrent;

typedef struct slot {
    struct slot *next; /* free, or queued */
    uint32_t index;
    bool runs;
} slot;

typedef struct aw__flight {
    aw_future face; /* for reports: see face_child */
    aw_stream *stream;
    aw__wakeset *ws;
    slot *free, *first, *last, *given;
    uint32_t capacity, running;
    int error; /* of the source: it comes after all outputs */
    bool ended, closing;
} flight;

enum {
    SLOT_HEAD = (sizeof(slot) + 15) & ~15,
    FLIGHT_HEAD = (sizeof(flight) + 15) & ~15,
    LIMIT_MAX = 1 << 30
};

static const struct aw__starts *starts_of(const aw_stream *s) {
    return s->type->extra;
}
static slot *slot_at(const flight *fl, uint32_t i) {
    size_t size = SLOT_HEAD + ((starts_of(fl->stream)->size + 15) & ~(size_t)15);
    return (slot *)(void *)((char *)(uintptr_t)fl + FLIGHT_HEAD + i * size);
}
static aw_future *child_of(slot *s) {
    return (aw_future *)(void *)((char *)s + SLOT_HEAD);
}

static const aw_future *face_child(const aw_future *self, size_t n) {
    const flight *fl = (const flight *)self;
    for (uint32_t i = 0; i < fl->capacity; i++) {
        slot *s = slot_at(fl, i);
        if (s->runs && n-- == 0) return child_of(s);
    }
    return NULL;
}
static const aw_future_type face_type = {
    .self_size = sizeof(aw_future_type), .name = "buffered", .child = face_child};

/* ---- The block -------------------------------------------------------------------------------- */

static void make_free(flight *fl, slot *s) {
    s->next = fl->free;
    fl->free = s;
}

static int make_flight(concurrent *c, aw_cx *cx) {
    size_t size = SLOT_HEAD + ((starts_of(&c->stream)->size + 15) & ~(size_t)15);
    if (c->limit == 0) return -EINVAL;
    if (c->limit > LIMIT_MAX || size > SIZE_MAX / 4 / c->limit) return -ENOMEM;
    aw__wakeset *ws = aw__wakeset_new(aw__allocator_for(aw_cx_runtime(cx)), c->limit,
                                      FLIGHT_HEAD + c->limit * size);
    if (!ws) return -ENOMEM;
    flight *fl = aw__wakeset_extra(ws);
    *fl = (flight){
        .face = AW_FUTURE_INIT(&face_type), .stream = &c->stream, .ws = ws, .capacity = c->limit};
    for (uint32_t i = c->limit; i-- > 0;) {
        slot *s = slot_at(fl, i);
        *s = (slot){.index = i};
        make_free(fl, s);
    }
    c->flight = fl;
    aw__open_begin(&c->opened, &fl->face, cx);
    return 0;
}

static void free_flight(concurrent *c, aw_cx *cx) {
    aw__open_end(&c->opened, cx);
    aw__wakeset_drop(c->flight->ws);
    c->flight = NULL;
}

/* ---- Queue ------------------------------------------------------------------------------------ */

static void append(flight *fl, slot *s) {
    s->next = NULL;
    if (fl->first)
        fl->last->next = s;
    else
        fl->first = s;
    fl->last = s;
}

static slot *take_first(flight *fl) {
    slot *s = fl->first;
    fl->first = s->next;
    return s;
}

static bool can_give(const flight *fl) {
    return fl->first && !fl->first->runs;
}

/* ---- Running ---------------------------------------------------------------------------------- */

/* Start as many as there is room for. */
static void fill(concurrent *c, aw_cx *cx) {
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
        slot *s = fl->free;
        fl->free = s->next;
        s->runs = true;
        fl->running++;
        starts_of(&c->stream)->start(&c->stream, child_of(s));
        if (c->ordered) append(fl, s);
        aw__wakeset_add(fl->ws, s->index);
    }
}

/* Poll those that were woken; what is left when the budget is used up stays woken. */
static void run(concurrent *c, aw_cx *cx) {
    flight *fl = c->flight;
    aw__wakeset_poll p;
    int64_t i;
    aw__wakeset_begin(fl->ws, &p, cx);
    while (p.cx.meter->budget && (i = aw__wakeset_next(&p)) >= 0) {
        slot *s = slot_at(fl, (uint32_t)i);
        if (!s->runs || aw_future_poll(child_of(s), &p.cx) == AW_PENDING) continue;
        s->runs = false;
        fl->running--;
        if (!c->ordered) append(fl, s);
    }
    aw__wakeset_end(&p, can_give(fl) ? 0 : fl->running, &fl->face);
}

/* Nobody waits any more: wakes are remembered. True when something came from the source in this moment. */
static bool stop_waiting(concurrent *c, aw_cx *cx) {
    aw__wakeset_disarm(c->flight->ws, cx);
    aw__wakeset_orphan(c->flight->ws);
    bool came = c->waiting && aw_stream_rest(c->source, cx);
    c->waiting = false;
    return came;
}

/* The first in the queue, or as an error: then nobody has to give it back. */
static int give(concurrent *c) {
    flight *fl = c->flight;
    slot *s = take_first(fl);
    int error = c->errors ? aw_future_error(child_of(s)) : 0;
    if (error) {
        make_free(fl, s);
        return error;
    }
    fl->given = s;
    c->item = (char *)child_of(s) + starts_of(&c->stream)->out_at;
    return 1;
}

aw_poll aw__concurrent_next(aw_stream *s, aw_cx *cx, int *out) {
    concurrent *c = (concurrent *)s;
    if (!c->flight && (*out = make_flight(c, cx)) < 0) return AW_READY;
    flight *fl = c->flight;
    if (fl->given) make_free(fl, fl->given);
    fl->given = NULL;
    fill(c, cx);
    run(c, cx);
    if (can_give(fl)) {
        stop_waiting(c, cx);
        *out = give(c);
        return AW_READY;
    }
    if (fl->running || !(fl->ended || fl->error)) return AW_PENDING;
    stop_waiting(c, cx);
    *out = fl->error;
    fl->error = 0;
    if (fl->ended) free_flight(c, cx);
    return AW_READY;
}

bool aw__concurrent_rest(aw_stream *s, aw_cx *cx) {
    concurrent *c = (concurrent *)s;
    return c->flight && stop_waiting(c, cx);
}

/* ---- Giving up -------------------------------------------------------------------------------- */

/* What has finished is discarded, and the others will be cancelled: each is called once. */
static void begin_to_close(flight *fl) {
    fl->closing = true;
    for (slot *s = fl->first; s; s = s->next)
        if (!s->runs) aw_future_discard(child_of(s));
    fl->first = NULL;
    for (uint32_t i = 0; i < fl->capacity; i++)
        if (slot_at(fl, i)->runs) aw__wakeset_add(fl->ws, i);
}

static void cancel_running(flight *fl, aw_cx *cx) {
    aw__wakeset_poll p;
    int64_t i;
    aw__wakeset_begin(fl->ws, &p, cx);
    while ((i = aw__wakeset_next(&p)) >= 0) {
        slot *s = slot_at(fl, (uint32_t)i);
        if (!s->runs) continue;
        aw_poll r = aw_future_cancel(child_of(s), &p.cx);
        if (r == AW_PENDING) continue;
        if (r == AW_READY) aw_future_discard(child_of(s));
        s->runs = false;
        fl->running--;
    }
    aw__wakeset_end(&p, fl->running, &fl->face);
}

aw_poll aw__concurrent_close(aw_stream *s, aw_cx *cx) {
    concurrent *c = (concurrent *)s;
    if (c->flight) {
        if (!c->flight->closing) begin_to_close(c->flight);
        cancel_running(c->flight, cx);
        if (c->flight->running) return AW_PENDING;
        stop_waiting(c, cx);
        free_flight(c, cx);
    }
    return aw_stream_poll_close(c->source, cx);
}

/* Moved, the output has left its future, which cannot help any more. */
void aw__concurrent_drop(aw_stream *s, void *item) {
    concurrent *c = (concurrent *)s;
    if (item == c->item && c->flight && c->flight->given)
        aw_future_discard(child_of(c->flight->given));
}

const aw_future *aw__concurrent_child(const aw_stream *s, size_t i) {
    const concurrent *c = (const concurrent *)s;
    const aw_future *child = c->flight ? face_child(&c->flight->face, i) : NULL;
    if (child) return child;
    return aw_stream_child(c->source, c->flight ? i - c->flight->running : i);
}
