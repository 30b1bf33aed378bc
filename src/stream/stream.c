/* SPDX-License-Identifier: MIT
 *
 * What all streams share, and the futures over them. No locks, no memory: a stream belongs to one task at a time.
 *
 * Between two calls of `next` a stream keeps no waker, because whoever polled may be gone: the waker is borrowed. So a
 * `next` that is cancelled tells the stream to rest, down to the leaves: those that can be given up and made again (a tick,
 * a receive) are; a future that cannot, because it would lose its item, is told by held.c. */
#include <awake/runtime.h>
#include <awake/stream.h>

#include <errno.h>

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(aw_stream) % sizeof(void *) == 0, "the item is directly behind it");
_Static_assert(offsetof(aw_interval_stream, item) == sizeof(aw_stream), "the same");

/* ---- Resting ---------------------------------------------------------------------------------- */

bool aw_stream_rest(aw_stream *s, aw_cx *cx) {
    if (!s->type->rest) return false;
    while (s->type->rest(s, cx)) {
        /* Something has come; it may be no item of this stream: a filter has the last word. */
        int out;
        if (s->type->next(s, cx, &out) == AW_PENDING) continue;
        if (out == 0) s->state |= AW__STREAM_ENDED;
        if (out > 0) s->state |= AW__STREAM_KEPT;
        if (out < 0) s->state |= AW__STREAM_FAILED | (uintptr_t)(unsigned)-out << AW__STREAM_ERROR;
        return true;
    }
    return false;
}

/* What was kept by a rest: an item, an error, the end. */
aw_poll aw__stream_kept(aw_stream *s, int *out) {
    uintptr_t state = s->state;
    *out = state & AW__STREAM_KEPT     ? 1
           : state & AW__STREAM_FAILED ? -(int)(state >> AW__STREAM_ERROR)
                                       : 0;
    s->state = state & AW__STREAM_ENDED;
    return AW_READY;
}

/* ---- Closing and dropping --------------------------------------------------------------------- */

void aw_stream_drop_item(aw_stream *s, void *item) {
    if (s->drop)
        s->drop(item);
    else if (s->type->drop)
        s->type->drop(s, item);
}

aw_poll aw_stream_poll_close(aw_stream *s, aw_cx *cx) {
    if (s->state & AW__STREAM_KEPT) aw_stream_drop_item(s, *aw__stream_item(s));
    s->state = AW__STREAM_ENDED;
    return s->type->close ? s->type->close(s, cx) : AW_READY;
}

const aw_future *aw_stream_child(const aw_stream *s, size_t i) {
    return s->type->child ? s->type->child(s, i) : NULL;
}

/* ---- next ------------------------------------------------------------------------------------- */

static aw_poll next_poll(aw_future *self, aw_cx *cx) {
    aw_stream_next_future *f = (aw_stream_next_future *)self;
    return aw_stream_poll_next(f->stream, cx, &f->out);
}

static aw_poll next_cancel(aw_future *self, aw_cx *cx) {
    aw_stream_next_future *f = (aw_stream_next_future *)self;
    if (!aw_future_started(self) || !aw_stream_rest(f->stream, cx)) return AW_CANCELLED;
    return aw__stream_kept(f->stream, &f->out);
}

static void next_discard(aw_future *self) {
    aw_stream_next_future *f = (aw_stream_next_future *)self;
    if (f->out > 0) aw_stream_keep(f->stream);
}

static const aw_future *next_child(const aw_future *self, size_t i) {
    return aw_stream_child(((const aw_stream_next_future *)self)->stream, i);
}

static void next_describe(const aw_future *self, char *buf, size_t size) {
    snprintf(buf, size, "of %s", ((const aw_stream_next_future *)self)->stream->type->name);
}

const aw_future_type aw_stream_next_type = {
    AW_TYPE_OF(aw_stream_next_future, "stream_next"),
    .flags = AW_OUT_ERRNO,
    .poll = next_poll,
    .cancel = next_cancel,
    .discard = next_discard,
    .child = next_child,
    .describe = next_describe,
};

/* As who asks, and gives up at once. */
int aw_stream_try_next_of(aw_stream *s) {
    aw_stream_next_future f = aw_stream_next_of(s);
    aw_waker nobody = aw_noop_waker();
    aw_cx cx = {&nobody, aw_runtime_current(), NULL};
    aw_poll r = aw_future_poll(&f.future, &cx);
    if (r == AW_PENDING) r = aw_future_cancel(&f.future, &cx);
    return r == AW_READY ? f.out : -EAGAIN;
}

/* ---- close ------------------------------------------------------------------------------------ */

_Static_assert(offsetof(aw_stream_close_future, stream) == offsetof(aw_stream_next_future, stream),
               "they share what looks at the stream");

static aw_poll close_poll(aw_future *self, aw_cx *cx) {
    return aw_stream_poll_close(((aw_stream_close_future *)self)->stream, cx);
}

/* It is cleaning up: it goes on. */
static aw_poll close_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_started(self) ? close_poll(self, cx) : AW_CANCELLED;
}

const aw_future_type aw_stream_close_type = {
    AW_TYPE_OF(aw_stream_close_future, "stream_close"),
    .flags = AW_OUT_ERRNO,
    .poll = close_poll,
    .cancel = close_cancel,
    .child = next_child,
    .describe = next_describe,
};

/* ---- drain ------------------------------------------------------------------------------------ */

enum { DRAINING, CLOSING, CUT }; /* state */

_Static_assert(offsetof(aw_stream_drain_future, stream) == offsetof(aw_stream_next_future, stream),
               "they share what looks at the stream");

static aw_poll drain_poll(aw_future *self, aw_cx *cx) {
    aw_stream_drain_future *f = (aw_stream_drain_future *)self;
    int out;
    while (self->state == DRAINING) {
        if (aw_stream_poll_next(f->stream, cx, &out) == AW_PENDING) return AW_PENDING;
        if (out > 0) {
            aw_stream_drop_item(f->stream, *aw__stream_item(f->stream));
        } else {
            f->out = out;
            self->state = CLOSING;
        }
    }
    return aw_stream_poll_close(f->stream, cx);
}

/* Once it is closing by itself its result is known. */
static aw_poll drain_cancel(aw_future *self, aw_cx *cx) {
    aw_stream_drain_future *f = (aw_stream_drain_future *)self;
    if (self->state == DRAINING) {
        if (aw_future_started(self)) aw_stream_rest(f->stream, cx);
        self->state = CUT;
    }
    if (aw_stream_poll_close(f->stream, cx) == AW_PENDING) return AW_PENDING;
    return self->state == CUT ? AW_CANCELLED : AW_READY;
}

const aw_future_type aw_stream_drain_type = {
    AW_TYPE_OF(aw_stream_drain_future, "stream_drain"),
    .flags = AW_OUT_ERRNO,
    .poll = drain_poll,
    .cancel = drain_cancel,
    .child = next_child,
    .describe = next_describe,
};

/* ---- collect ---------------------------------------------------------------------------------- */

_Static_assert(offsetof(aw_stream_collect_future, stream) ==
                   offsetof(aw_stream_next_future, stream),
               "they share what looks at the stream");

static aw_poll collect_poll(aw_future *self, aw_cx *cx) {
    aw_stream_collect_future *f = (aw_stream_collect_future *)self;
    while (f->count < f->capacity) {
        if (aw_stream_poll_next(f->stream, cx, &f->out) == AW_PENDING) return AW_PENDING;
        if (f->out < 0) return AW_READY;
        if (f->out == 0) break;
        memcpy(f->to + f->count++ * f->size, *aw__stream_item(f->stream), f->size);
    }
    f->out = (int)f->count;
    return AW_READY;
}

/* What comes in this moment stays in the stream, and so do an error and the end. */
static aw_poll collect_cancel(aw_future *self, aw_cx *cx) {
    if (aw_future_started(self)) aw_stream_rest(((aw_stream_collect_future *)self)->stream, cx);
    return AW_CANCELLED;
}

const aw_future_type aw_stream_collect_type = {
    AW_TYPE_OF(aw_stream_collect_future, "stream_collect"),
    .flags = AW_OUT_ERRNO,
    .poll = collect_poll,
    .cancel = collect_cancel,
    .child = next_child,
    .describe = next_describe,
};

/* ---- fold ------------------------------------------------------------------------------------- */

aw_poll aw__fold_cancel(aw_future *self, aw_cx *cx) {
    if (aw_future_started(self)) aw_stream_rest(((struct aw__fold *)self)->source, cx);
    return AW_CANCELLED;
}

const aw_future *aw__fold_child(const aw_future *self, size_t i) {
    return aw_stream_child(((const struct aw__fold *)self)->source, i);
}
