/* SPDX-License-Identifier: MIT
 *
 * A reader as a stream. The future that reads the next item goes on from one `next` to another (stream/held.c): a
 * call in the system's hands cannot be given up at once. An item that comes while nobody asks goes back into the
 * buffer. */
#include <awake/lines.h>

enum { IDLE, RUNNING, DONE /* an error, or the end, that nobody was told yet */ };

static aw_poll reader_next(aw_stream *self, aw_cx *cx, int *out) {
    aw_reader_stream *s = (aw_reader_stream *)self;
    if (s->phase == IDLE) {
        s->now = s->each;
        s->phase = RUNNING;
    }
    if (s->phase == RUNNING && aw__held_poll(&s->held, &s->now.future, cx) == AW_PENDING)
        return AW_PENDING;
    s->phase = IDLE;
    *out = (int)s->now.out;
    return AW_READY;
}

static bool reader_rest(aw_stream *self, aw_cx *cx) {
    aw_reader_stream *s = (aw_reader_stream *)self;
    if (s->phase != RUNNING || !aw__held_rest(&s->held, &s->now.future, cx)) return false;
    s->phase = DONE;
    if (s->now.out <= 0) return true;
    aw_future_discard(&s->now.future);
    s->phase = IDLE;
    return false;
}

static aw_poll reader_close(aw_stream *self, aw_cx *cx) {
    aw_reader_stream *s = (aw_reader_stream *)self;
    if (s->phase == RUNNING) {
        aw_poll r = aw__held_cancel(&s->held, &s->now.future, cx);
        if (r == AW_PENDING) return AW_PENDING;
        if (r == AW_READY) aw_future_discard(&s->now.future);
    }
    s->phase = IDLE;
    return AW_READY;
}

static void reader_keep(aw_stream *self) {
    aw_future_discard(&((aw_reader_stream *)self)->now.future);
}

static const aw_future *reader_child(const aw_stream *self, size_t i) {
    const aw_reader_stream *s = (const aw_reader_stream *)self;
    return i == 0 && s->phase == RUNNING ? &s->now.future : NULL;
}

const aw_stream_type aw_reader_stream_type = {
    .self_size = sizeof(aw_stream_type),
    .name = "reader",
    .next = reader_next,
    .rest = reader_rest,
    .close = reader_close,
    .keep = reader_keep,
    .child = reader_child,
};
