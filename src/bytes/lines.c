/* SPDX-License-Identifier: MIT
 *
 * A reader as a stream. The future that reads the next item lives on from one `next` to another
 * (stream/pending_item.c), because an operation in flight cannot be abandoned at once. An item that
 * arrives while no `next` waits goes back into the buffer. */
#include <awake/lines.h>

enum {
    LINES_IDLE,
    LINES_RUNNING,
    LINES_DONE,  /* an error or the end, not reported yet */
    LINES_FAILED /* an error was reported */
};

static aw_poll reader_next(aw_stream *self, aw_cx *cx, int *out) {
    aw_reader_stream *s = (aw_reader_stream *)self;
    if (s->phase == LINES_FAILED) {
        *out = 0;
        return AW_READY;
    }
    if (s->phase == LINES_IDLE) {
        s->now = s->each;
        s->phase = LINES_RUNNING;
    }
    if (s->phase == LINES_RUNNING &&
        aw__pending_item_poll(&s->pending, &s->now.future, cx) == AW_PENDING)
        return AW_PENDING;
    *out = (int)s->now.out;
    s->phase = *out < 0 ? LINES_FAILED : LINES_IDLE;
    return AW_READY;
}

static bool reader_disarm(aw_stream *self, aw_cx *cx) {
    aw_reader_stream *s = (aw_reader_stream *)self;
    if (s->phase != LINES_RUNNING || !aw__pending_item_disarm(&s->pending, &s->now.future, cx))
        return false;
    s->phase = LINES_DONE;
    if (s->now.out <= 0) return true;
    aw_future_discard(&s->now.future);
    s->phase = LINES_IDLE;
    return false;
}

static aw_poll reader_close(aw_stream *self, aw_cx *cx) {
    aw_reader_stream *s = (aw_reader_stream *)self;
    if (s->phase == LINES_RUNNING) {
        aw_poll r = aw__pending_item_cancel(&s->pending, &s->now.future, cx);
        if (r == AW_PENDING) return AW_PENDING;
        if (r == AW_READY) aw_future_discard(&s->now.future);
    }
    s->phase = LINES_IDLE;
    return AW_READY;
}

static void reader_put_back(aw_stream *self) {
    aw_future_discard(&((aw_reader_stream *)self)->now.future);
}

static const aw_future *reader_child(const aw_stream *self, size_t i) {
    const aw_reader_stream *s = (const aw_reader_stream *)self;
    return i == 0 && s->phase == LINES_RUNNING ? &s->now.future : NULL;
}

const aw_stream_type aw_reader_stream_type = {
    .self_size = sizeof(aw_stream_type),
    .name = "reader",
    .next = reader_next,
    .disarm = reader_disarm,
    .close = reader_close,
    .put_back = reader_put_back,
    .child = reader_child,
};
