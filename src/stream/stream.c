/* SPDX-License-Identifier: MIT
 *
 * What all streams share, and the futures over streams. No locks and no allocations: a stream is
 * used by one task at a time.
 *
 * Between two calls of `next` a stream keeps no waker: a waker is borrowed, and the task that
 * polled may be gone. So a cancelled `next` disarms the stream, down to its leaves. A leaf that can
 * be made again (a tick, a receive) is cancelled. A future that would lose its item is disarmed by
 * pending_item.c. */
#include <awake/runtime.h>
#include <awake/stream.h>

#include <errno.h>

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(aw_stream) % sizeof(void *) == 0, "`item` follows the stream");
_Static_assert(offsetof(aw_interval_stream, item) == sizeof(aw_stream),
               "`item` follows the stream");

/* ---- Disarm ---------------------------------------------------------------------------------- */

static void stash_error(aw_stream *s, int error) {
    s->state |= AW__STREAM_FAILED | (uintptr_t)(unsigned)-error << AW__STREAM_ERROR;
}

bool aw_stream_disarm(aw_stream *s, aw_cx *cx) {
    if (!s->type->disarm) return false;
    while (s->type->disarm(s, cx)) {
        /* The source has something, but perhaps not an item of this stream: a filter may drop
         * it. */
        int out;
        if (s->type->next(s, cx, &out) == AW_PENDING) continue;
        if (out == 0) s->state |= AW__STREAM_ENDED;
        if (out > 0) s->state |= AW__STREAM_PUT_BACK;
        if (out < 0) stash_error(s, out);
        return true;
    }
    return false;
}

/* Returns what a disarm or a discard has stored: an item, an error or the end. */
aw_poll aw__stream_again(aw_stream *s, int *out) {
    uintptr_t state = s->state;
    *out = state & AW__STREAM_PUT_BACK ? 1
           : state & AW__STREAM_FAILED ? -(int)(state >> AW__STREAM_ERROR)
                                       : 0;
    s->state = state & AW__STREAM_ENDED;
    return AW_READY;
}

/* ---- Close and drop -------------------------------------------------------------------------- */

void aw_stream_drop_item(aw_stream *s, void *item) {
    if (s->drop)
        s->drop(item);
    else if (s->type->drop)
        s->type->drop(s, item);
}

aw_poll aw_stream_poll_close(aw_stream *s, aw_cx *cx) {
    if (s->state & AW__STREAM_PUT_BACK) aw_stream_drop_item(s, *aw__stream_item(s));
    s->state = AW__STREAM_ENDED;
    return s->type->close ? s->type->close(s, cx) : AW_READY;
}

const aw_future *aw_stream_child(const aw_stream *s, size_t i) {
    return s->type->child ? s->type->child(s, i) : NULL;
}

/* ---- next ------------------------------------------------------------------------------------ */

static aw_poll stream_next_poll(aw_future *self, aw_cx *cx) {
    aw_stream_next_future *f = (aw_stream_next_future *)self;
    return aw_stream_poll_next(f->stream, cx, &f->out);
}

static aw_poll stream_next_cancel(aw_future *self, aw_cx *cx) {
    aw_stream_next_future *f = (aw_stream_next_future *)self;
    if (!aw_future_started(self) || !aw_stream_disarm(f->stream, cx)) return AW_CANCELLED;
    return aw__stream_again(f->stream, &f->out);
}

static void stream_next_discard(aw_future *self) {
    aw_stream_next_future *f = (aw_stream_next_future *)self;
    if (f->out > 0) aw_stream_put_back(f->stream);
    /* Store the error: otherwise the stream would seem to have ended without one. */
    if (f->out < 0) stash_error(f->stream, f->out);
}

static const aw_future *stream_next_child(const aw_future *self, size_t i) {
    return aw_stream_child(((const aw_stream_next_future *)self)->stream, i);
}

static void stream_next_describe(const aw_future *self, char *buf, size_t size) {
    snprintf(buf, size, "of %s", ((const aw_stream_next_future *)self)->stream->type->name);
}

const aw_future_type aw_stream_next_type = {
    AW_TYPE_OF(aw_stream_next_future, "stream_next"),
    .flags = AW_OUT_ERRNO,
    .poll = stream_next_poll,
    .cancel = stream_next_cancel,
    .discard = stream_next_discard,
    .child = stream_next_child,
    .describe = stream_next_describe,
};

/* A `next` that is cancelled after its first poll. */
int aw_stream_try_next_of(aw_stream *s) {
    aw_stream_next_future f = aw_stream_next_of(s);
    aw_waker noop = aw_noop_waker();
    aw_cx cx = {&noop, aw_runtime_current(), NULL};
    aw_poll r = aw_future_poll(&f.future, &cx);
    if (r == AW_PENDING) r = aw_future_cancel(&f.future, &cx);
    return r == AW_READY ? f.out : -EAGAIN;
}

/* ---- close ----------------------------------------------------------------------------------- */

_Static_assert(offsetof(aw_stream_close_future, stream) == offsetof(aw_stream_next_future, stream),
               "shares stream_next_child and stream_next_describe");

static aw_poll stream_close_poll(aw_future *self, aw_cx *cx) {
    return aw_stream_poll_close(((aw_stream_close_future *)self)->stream, cx);
}

/* A close is cleanup: a cancel continues it. */
static aw_poll stream_close_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_started(self) ? stream_close_poll(self, cx) : AW_CANCELLED;
}

const aw_future_type aw_stream_close_type = {
    AW_TYPE_OF(aw_stream_close_future, "stream_close"),
    .flags = AW_OUT_ERRNO,
    .poll = stream_close_poll,
    .cancel = stream_close_cancel,
    .child = stream_next_child,
    .describe = stream_next_describe,
};

/* ---- drain ----------------------------------------------------------------------------------- */

enum { DRAIN_RUNNING, DRAIN_CLOSING, DRAIN_CANCELLED }; /* state */

_Static_assert(offsetof(aw_stream_drain_future, stream) == offsetof(aw_stream_next_future, stream),
               "shares stream_next_child and stream_next_describe");

static aw_poll stream_drain_poll(aw_future *self, aw_cx *cx) {
    aw_stream_drain_future *f = (aw_stream_drain_future *)self;
    int out;
    while (self->state == DRAIN_RUNNING) {
        if (aw_stream_poll_next(f->stream, cx, &out) == AW_PENDING) return AW_PENDING;
        if (out > 0) {
            aw_stream_drop_item(f->stream, *aw__stream_item(f->stream));
        } else {
            f->out = out;
            self->state = DRAIN_CLOSING;
        }
    }
    return aw_stream_poll_close(f->stream, cx);
}

/* After the last item the result is known, and a cancel does not change it. */
static aw_poll stream_drain_cancel(aw_future *self, aw_cx *cx) {
    aw_stream_drain_future *f = (aw_stream_drain_future *)self;
    if (self->state == DRAIN_RUNNING) {
        if (aw_future_started(self)) aw_stream_disarm(f->stream, cx);
        self->state = DRAIN_CANCELLED;
    }
    if (aw_stream_poll_close(f->stream, cx) == AW_PENDING) return AW_PENDING;
    return self->state == DRAIN_CANCELLED ? AW_CANCELLED : AW_READY;
}

const aw_future_type aw_stream_drain_type = {
    AW_TYPE_OF(aw_stream_drain_future, "stream_drain"),
    .flags = AW_OUT_ERRNO,
    .poll = stream_drain_poll,
    .cancel = stream_drain_cancel,
    .child = stream_next_child,
    .describe = stream_next_describe,
};

/* ---- collect --------------------------------------------------------------------------------- */

_Static_assert(offsetof(aw_stream_collect_future, stream) ==
                   offsetof(aw_stream_next_future, stream),
               "shares stream_next_child and stream_next_describe");

static aw_poll stream_collect_poll(aw_future *self, aw_cx *cx) {
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

/* An item, an error or the end that arrives meanwhile stays in the stream. */
static aw_poll stream_collect_cancel(aw_future *self, aw_cx *cx) {
    if (aw_future_started(self)) aw_stream_disarm(((aw_stream_collect_future *)self)->stream, cx);
    return AW_CANCELLED;
}

const aw_future_type aw_stream_collect_type = {
    AW_TYPE_OF(aw_stream_collect_future, "stream_collect"),
    .flags = AW_OUT_ERRNO,
    .poll = stream_collect_poll,
    .cancel = stream_collect_cancel,
    .child = stream_next_child,
    .describe = stream_next_describe,
};

/* ---- fold ------------------------------------------------------------------------------------ */

aw_poll aw__fold_cancel(aw_future *self, aw_cx *cx) {
    if (aw_future_started(self)) aw_stream_disarm(((struct aw__fold *)self)->source, cx);
    return AW_CANCELLED;
}

const aw_future *aw__fold_child(const aw_future *self, size_t i) {
    return aw_stream_child(((const struct aw__fold *)self)->source, i);
}
