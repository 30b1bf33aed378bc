/* SPDX-License-Identifier: MIT
 *
 * Writers. Accepted data is copied into the buffer; calls write from it and advance `start`. */
#include "bytes/writer_calls.h"

#include <string.h>

#include "base/allocate.h"
#include "context/context.h"

int aw_writer_init(aw_writer *w, aw_conn *c, size_t size) {
    const aw_allocator *a = aw__allocator_for(NULL);
    char *buf = aw__alloc(a, size);
    *w = aw_writer_of(c, buf, buf ? size : 0);
    w->allocator = buf ? a : NULL;
    return buf ? 0 : -ENOMEM;
}

void aw_writer_free(aw_writer *w) {
    if (w->allocator) aw__free(w->allocator, w->buf, w->capacity);
    *w = aw_writer_of(w->conn, NULL, 0);
}

size_t aw__writer_add(aw_writer *w, const void *data, size_t size) {
    if (size > w->capacity - w->end && w->start) {
        memmove(w->buf, w->buf + w->start, aw_writer_size(w));
        w->end -= w->start;
        w->start = 0;
    }
    if (size > w->capacity - w->end) size = w->capacity - w->end;
    if (size) memcpy(w->buf + w->end, data, size);
    w->end += size;
    return size;
}

int aw_writer_put(aw_writer *w, const void *data, size_t size) {
    const aw_writer_future *user = w->user;
    if (user && user->future.type != &aw_writer_flush_type &&
        user->future.type != &aw_writer_drain_type)
        /* The data would end up in the middle of another write. */
        return -EBUSY;
    /* While another future uses the writer, a call may read from the buffer: the data must not
     * move. */
    size_t space = w->capacity - (w->user ? w->end : aw_writer_size(w));
    if (!size) return 0;
    if (aw__writer_is_high(w) || size > space) return -EAGAIN;
    aw__writer_add(w, data, size);
    return 0;
}

/* ---- Empty the buffer ------------------------------------------------------------------------ */

static bool writer_flush_next(aw__calls *op, int n) {
    aw_writer *w = ((aw_writer_future *)op)->writer;
    int error = aw__writer_wrote(w, n);
    if (error || !aw_writer_size(w)) return aw__calls_finish(op, error);
    return aw__writer_write_out(op, w);
}

static bool writer_drain_next(aw__calls *op, int n) {
    aw_writer *w = ((aw_writer_future *)op)->writer;
    int error = aw__writer_wrote(w, n);
    if (error || (n == AW__CALLS_FIRST && !aw__writer_is_high(w)) || aw_writer_size(w) <= w->low)
        return aw__calls_finish(op, error);
    return aw__writer_write_out(op, w);
}

static bool writer_shutdown_next(aw__calls *op, int n) {
    aw_writer_future *f = (aw_writer_future *)op;
    if (f->shut) return aw__calls_finish(op, n);
    int error = aw__writer_wrote(f->writer, n);
    if (error) return aw__calls_finish(op, error);
    if (aw_writer_size(f->writer)) return aw__writer_write_out(op, f->writer);
    f->shut = true;
    op->io = aw_shutdown(f->writer->conn);
    return true;
}

/* ---- Write ----------------------------------------------------------------------------------- */

/* The contents of the buffer go first. */
static bool write_direct(aw_writer_future *f) {
    aw_writer *w = f->writer;
    size_t remaining = f->size - f->done;
    if (!aw_writer_size(w))
        return aw__calls_write((aw__calls *)f, w->conn, f->data + f->done, remaining);
    f->parts[0] = (struct iovec){w->buf + w->start, aw_writer_size(w)};
    f->parts[1] = (struct iovec){(char *)(uintptr_t)f->data + f->done, aw__call_size(remaining)};
    f->io = aw_writev(w->conn, f->parts, 2);
    return true;
}

static bool writer_write_next(aw__calls *op, int n) {
    aw_writer_future *f = (aw_writer_future *)op;
    aw_writer *w = f->writer;
    if (n > 0) {
        size_t in_buffer = aw_writer_size(w) < (size_t)n ? aw_writer_size(w) : (size_t)n;
        f->done += (size_t)n - in_buffer;
        n = in_buffer ? (int)in_buffer : AW__CALLS_FIRST;
    }
    int error = aw__writer_wrote(w, n);
    if (error) return aw__calls_finish(op, error);
    for (;;) {
        size_t remaining = f->size - f->done, size = aw_writer_size(w);
        if (!remaining) return aw__calls_finish(op, (ssize_t)f->done);
        f->draining = size && (f->draining ? size > w->low : aw__writer_is_high(w));
        if (f->draining) return aw__writer_write_out(op, w);
        if (remaining >= w->capacity) return write_direct(f);
        f->done += aw__writer_add(w, f->data + f->done, remaining);
    }
}

/* ---- Poll and cancel ------------------------------------------------------------------------- */

static aw_poll writer_leave(aw_poll r, aw_writer *w, const void *user) {
    if (r != AW_PENDING && w->user == user) w->user = NULL;
    return r;
}

aw_poll aw__writer_poll(aw_future *self, aw_cx *cx, aw__calls_next *next) {
    aw_writer_future *f = (aw_writer_future *)self;
    aw_writer *w = f->writer;
    if (!w->capacity || (w->user && w->user != f)) {
        f->out = w->capacity ? -EBUSY : -EINVAL;
        aw_cx_spend(cx);
        return AW_READY;
    }
    w->user = f;
    return writer_leave(aw__calls_poll(self, cx, next), w, f);
}

aw_poll aw__writer_cancel(aw_future *self, aw_cx *cx, aw__calls_next *next) {
    aw_writer_future *f = (aw_writer_future *)self;
    return writer_leave(aw__calls_cancel(self, cx, next), f->writer, f);
}

AW__WRITER_TYPE(writer_write, aw_writer_write_type, "writer_write");
AW__WRITER_TYPE(writer_flush, aw_writer_flush_type, "writer_flush");
AW__WRITER_TYPE(writer_drain, aw_writer_drain_type, "writer_drain");
AW__WRITER_TYPE(writer_shutdown, aw_writer_shutdown_type, "writer_shutdown");
