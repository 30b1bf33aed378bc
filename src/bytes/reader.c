/* SPDX-License-Identifier: MIT
 *
 * Readers. Each future fills the buffer until it holds what is wanted, and takes that in one step,
 * so a cancel has nothing to undo. A discard returns what was taken by moving `start` back: the
 * bytes stay in the buffer until the reader is used again. */
#include "bytes/reader_calls.h"

#include "base/allocate.h"
#include "context/context.h"

int aw_reader_init(aw_reader *r, aw_conn *c, size_t size) {
    const aw_allocator *a = aw__allocator_for(NULL);
    char *buf = aw__alloc(a, size);
    *r = aw_reader_of(c, buf, buf ? size : 0);
    r->allocator = buf ? a : NULL;
    return buf ? 0 : -ENOMEM;
}

void aw_reader_free(aw_reader *r) {
    if (r->allocator) aw__free(r->allocator, r->buf, r->capacity);
    *r = aw_reader_of(r->conn, NULL, 0);
}

void aw_reader_consume(aw_reader *r, size_t size) {
    r->start += size < aw__reader_size(r) ? size : aw__reader_size(r);
    r->epoch++;
}

static void reader_copy(aw_reader_future *f, size_t size) {
    if (size) memcpy(f->data + f->done, f->reader->buf + f->reader->start, size);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool reader_fill_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    int error = aw__reader_filled(r, n);
    if (error) return aw__calls_finish(op, error);
    if (f->size > r->capacity) return aw__calls_finish(op, -EMSGSIZE);
    if (aw__reader_size(r) >= f->size || r->ended)
        return aw__calls_finish(op, (ssize_t)aw__reader_size(r));
    return aw__reader_read_more(op, r, f->size);
}

static bool reader_read_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    bool direct = f->size >= r->capacity; /* without the buffer */
    if (n != AW__CALLS_FIRST && direct) {
        if (n == 0) r->ended = true;
        if (n > 0) f->done = (size_t)n;
        return aw__calls_finish(op, n);
    }
    int error = aw__reader_filled(r, n);
    if (error) return aw__calls_finish(op, error);
    size_t size = aw__reader_size(r) < f->size ? aw__reader_size(r) : f->size;
    if (size || !f->size || r->ended) {
        reader_copy(f, size);
        return aw__reader_deliver(f, size, (ssize_t)size);
    }
    return direct ? aw__calls_read(op, r->conn, f->data, f->size) : aw__reader_read_more(op, r, 0);
}

static bool reader_read_exact_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    bool direct = f->size > r->capacity;
    if (n != AW__CALLS_FIRST && direct) {
        if (n < 0) return aw__calls_finish(op, n);
        if (n == 0) r->ended = true;
        f->done += (size_t)n;
    } else {
        int error = aw__reader_filled(r, n);
        if (error) return aw__calls_finish(op, error);
    }
    size_t remaining = f->size - f->done, size = aw__reader_size(r);
    if (size >= remaining) {
        reader_copy(f, remaining);
        return aw__reader_deliver(f, remaining, (ssize_t)f->size);
    }
    if (direct) {
        reader_copy(f, size);
        aw__reader_take(f, size);
    }
    if (r->ended) return aw__calls_finish(op, -ENODATA);
    if (!direct) return aw__reader_read_more(op, r, remaining);
    return aw__calls_read(op, r->conn, f->data + f->done, f->size - f->done);
}

/* ---- Items in the buffer --------------------------------------------------------------------- */

/* The offset of the delimiter; the size of the data if there is none. Does not search the same
 * bytes twice. */
static size_t reader_find(aw_reader_future *f) {
    aw_reader *r = f->reader;
    size_t size = aw__reader_size(r);
    const char *from = r->buf + r->start,
               *found = f->delimiter < 0 || f->seen == size
                            ? NULL
                            : memchr(from + f->seen, f->delimiter, size - f->seen);
    f->seen = found ? (size_t)(found - from) : size;
    return f->seen;
}

static bool deliver_item(aw_reader_future *f, size_t size, bool terminated) {
    aw_reader *r = f->reader;
    char *data = r->buf + r->start;
    bool cr = terminated && f->strip && size && data[size - 1] == '\r';
    if (size - cr > f->size) return aw__calls_finish((aw__calls *)f, -EMSGSIZE);
    r->item = (aw_slice){data, size - cr};
    r->terminated = terminated;
    return aw__reader_deliver(f, size + terminated, 1);
}

/* True: too long, whatever follows. The last byte of a line may be a \r that does not count. The
 * answer must not depend on how the bytes arrive. */
static bool is_too_long(const aw_reader_future *f, size_t size) {
    return size > f->size && size - f->size > (f->strip ? 1 : 0);
}

static bool reader_until_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    int error = aw__reader_filled(r, n);
    if (error) return aw__calls_finish(op, error);
    size_t size = reader_find(f);
    if (size < aw__reader_size(r)) return deliver_item(f, size, true);
    if (size >= r->capacity || is_too_long(f, size)) return aw__calls_finish(op, -EMSGSIZE);
    if (r->ended && size) return deliver_item(f, size, false);
    if (r->ended) return aw__calls_finish(op, 0);
    return aw__reader_read_more(op, r, 0);
}

/* ---- Items gathered in `into` ---------------------------------------------------------------- */

static size_t limit_left(const aw_reader_future *f) {
    return f->into->size < f->size ? f->size - f->into->size : 0;
}

/* Takes what is in the buffer, up to the delimiter. 1: the item is complete; 0: more is needed; or
 * a negative errno. */
static int gather_from_buffer(aw_reader_future *f) {
    aw_reader *r = f->reader;
    aw_bytes *b = f->into;
    size_t size = reader_find(f), extra = 0;
    bool complete = size < aw__reader_size(r);
    /* A \r that may not count waits in the buffer, or in `into`, for its \n. */
    bool cr = f->strip && size && r->buf[r->start + size - 1] == '\r';
    if (cr && size == limit_left(f) + 1) extra = 1;
    if (size - extra > limit_left(f)) return -EMSGSIZE;
    if (extra && !complete && r->ended) return -EMSGSIZE;
    int error = aw_bytes_append(b, r->buf + r->start, size - extra);
    if (error) return error;
    aw__reader_take(f, size - extra);
    f->seen = extra;
    if (!complete) return 0;
    aw__reader_take(f, extra + 1);
    f->seen = 0;
    if (f->strip && !extra && b->size && b->data[b->size - 1] == '\r') b->size--;
    r->terminated = true;
    return 1;
}

/* Whether the last call read into the buffer, or straight into `into`. Compares the start of the
 * data: `into` may end where the buffer begins. */
static bool is_in_buffer(const aw_reader *r, const void *data) {
    return (uintptr_t)data - (uintptr_t)r->buf < r->capacity;
}

static bool reader_gather_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    aw_bytes *b = f->into;
    if (n > 0 && !is_in_buffer(r, op->io.data)) {
        b->size += (size_t)n;
        f->done += (size_t)n;
    } else {
        int error = aw__reader_filled(r, n);
        if (error) return aw__calls_finish(op, error);
    }
    int status = gather_from_buffer(f);
    if (status) return aw__calls_finish(op, status);
    if (r->ended) {
        r->terminated = false;
        return aw__calls_finish(op, f->delimiter < 0 ? (ssize_t)f->done : b->size > 0);
    }
    /* A read to the end goes straight into `into`. At the limit it uses the buffer: only the end
     * may follow. */
    if (f->delimiter >= 0 || !limit_left(f) || aw__reader_size(r))
        return aw__reader_read_more(op, r, 0);
    size_t more = r->capacity < limit_left(f) ? r->capacity : limit_left(f);
    int error = aw_bytes_reserve(b, more);
    if (error) return aw__calls_finish(op, error);
    size_t spare = b->capacity - b->size;
    return aw__calls_read(op, r->conn, b->data + b->size,
                          spare < limit_left(f) ? spare : limit_left(f));
}

/* ---- Poll and cancel ------------------------------------------------------------------------- */

aw_poll aw__reader_poll(aw_future *self, aw_cx *cx, aw__calls_next *next) {
    aw_reader_future *f = (aw_reader_future *)self;
    if (!f->reader->capacity || !aw__reader_enter(f->reader, f)) {
        f->out = f->reader->capacity ? -EBUSY : -EINVAL;
        aw_cx_spend(cx);
        return AW_READY;
    }
    return aw__reader_leave(aw__calls_poll(self, cx, next), f->reader, f);
}

aw_poll aw__reader_cancel(aw_future *self, aw_cx *cx, aw__calls_next *next) {
    aw_reader_future *f = (aw_reader_future *)self;
    return aw__reader_leave(aw__calls_cancel(self, cx, next), f->reader, f);
}

void aw__reader_discard(aw_future *self) {
    aw_reader_future *f = (aw_reader_future *)self;
    if (f->epoch != f->reader->epoch) return;
    f->reader->start -= f->back;
    f->done -= f->back;
}

AW__READER_TYPE(reader_fill, aw_reader_fill_type, "reader_fill");
AW__READER_TYPE(reader_read, aw_reader_read_type, "reader_read");
AW__READER_TYPE(reader_read_exact, aw_reader_read_exact_type, "reader_read_exact");
AW__READER_TYPE(reader_until, aw_reader_until_type, "reader_until");
AW__READER_TYPE(reader_gather, aw_reader_gather_type, "reader_gather");
