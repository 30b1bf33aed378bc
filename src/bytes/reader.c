/* SPDX-License-Identifier: MIT
 *
 * Readers: each future fills the buffer until what it wants is there, and takes it in one step. So there is nothing
 * to undo when it is cancelled. What was taken is given back by moving `start` back: the bytes are still there, until
 * somebody else has had his turn. */
#include "bytes/reader.h"

#include "core/alloc.h"

int aw_reader_init(aw_reader *r, aw_conn *c, size_t size) {
    const aw_allocator *a = aw__allocator_for(NULL);
    char *buf = aw__alloc(a, size);
    *r = aw_reader_of(c, buf, buf ? size : 0);
    r->allocator = buf ? a : NULL;
    return buf ? 0 : -ENOMEM;
}

void aw_reader_free(aw_reader *r) {
    if (r->allocator) aw__release(r->allocator, r->buf, r->capacity);
    *r = aw_reader_of(r->conn, NULL, 0);
}

void aw_reader_consume(aw_reader *r, size_t size) {
    r->start += size < aw__reader_size(r) ? size : aw__reader_size(r);
    r->turn++;
}

static void copy(aw_reader_future *f, size_t size) {
    if (size) memcpy(f->data + f->done, f->reader->buf + f->reader->start, size);
}

/* ---- Bytes ------------------------------------------------------------------------------------ */

static bool fill_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    int error = aw__reader_filled(r, n);
    if (error) return aw__calls_over(op, error);
    if (f->size > r->capacity) return aw__calls_over(op, -EMSGSIZE);
    if (aw__reader_size(r) >= f->size || r->ended)
        return aw__calls_over(op, (ssize_t)aw__reader_size(r));
    return aw__reader_more(op, r, f->size);
}

static bool read_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    bool around = f->size >= r->capacity; /* without the buffer */
    if (n != AW__CALLS_FIRST && around) {
        if (n == 0) r->ended = true;
        if (n > 0) f->done = (size_t)n;
        return aw__calls_over(op, n);
    }
    int error = aw__reader_filled(r, n);
    if (error) return aw__calls_over(op, error);
    size_t size = aw__reader_size(r) < f->size ? aw__reader_size(r) : f->size;
    if (size || !f->size || r->ended) {
        copy(f, size);
        return aw__reader_give(f, size, (ssize_t)size);
    }
    return around ? aw__calls_read(op, r->conn, f->data, f->size) : aw__reader_more(op, r, 0);
}

static bool read_exact_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    bool around = f->size > r->capacity;
    if (n != AW__CALLS_FIRST && around) {
        if (n < 0) return aw__calls_over(op, n);
        if (n == 0) r->ended = true;
        f->done += (size_t)n;
    } else {
        int error = aw__reader_filled(r, n);
        if (error) return aw__calls_over(op, error);
    }
    size_t left = f->size - f->done, size = aw__reader_size(r);
    if (size >= left) {
        copy(f, left);
        return aw__reader_give(f, left, (ssize_t)f->size);
    }
    if (around) {
        copy(f, size);
        aw__reader_take(f, size);
    }
    if (r->ended) return aw__calls_over(op, -ENODATA);
    if (!around) return aw__reader_more(op, r, left);
    return aw__calls_read(op, r->conn, f->data + f->done, f->size - f->done);
}

/* ---- Parts, where they lie -------------------------------------------------------------------- */

/* How much of the buffer is before the delimiter, from where it was not looked for yet; all of it: there is none. */
static size_t find(aw_reader_future *f) {
    aw_reader *r = f->reader;
    size_t size = aw__reader_size(r);
    const char *from = r->buf + r->start,
               *found = f->delimiter < 0 || f->seen == size
                            ? NULL
                            : memchr(from + f->seen, f->delimiter, size - f->seen);
    f->seen = found ? (size_t)(found - from) : size;
    return f->seen;
}

static bool item(aw_reader_future *f, size_t size, bool terminated) {
    aw_reader *r = f->reader;
    char *data = r->buf + r->start;
    bool cr = terminated && f->strip && size && data[size - 1] == '\r';
    if (size - cr > f->size) return aw__calls_over((aw__calls *)f, -EMSGSIZE);
    r->item = (aw_slice){data, size - cr};
    r->terminated = terminated;
    return aw__reader_give(f, size + terminated, 1);
}

/* Whether that is too long, whatever follows: of a line the last byte may be the \r that does not count. It must not
 * depend on how the bytes arrive. */
static bool is_too_long(const aw_reader_future *f, size_t size) {
    return size > f->size && size - f->size > (f->strip ? 1 : 0);
}

static bool until_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    int error = aw__reader_filled(r, n);
    if (error) return aw__calls_over(op, error);
    size_t size = find(f);
    if (size < aw__reader_size(r)) return item(f, size, true);
    if (size >= r->capacity || is_too_long(f, size)) return aw__calls_over(op, -EMSGSIZE);
    if (r->ended && size) return item(f, size, false);
    if (r->ended) return aw__calls_over(op, 0);
    return aw__reader_more(op, r, 0);
}

/* ---- Parts, gathered elsewhere ---------------------------------------------------------------- */

static size_t room(const aw_reader_future *f) {
    return f->into->size < f->size ? f->size - f->into->size : 0;
}

/* What is in the buffer, up to the delimiter. 1: that was it; 0: more is wanted; or an error. */
static int gather(aw_reader_future *f) {
    aw_reader *r = f->reader;
    aw_bytes *b = f->into;
    size_t size = find(f), extra = 0;
    bool whole = size < aw__reader_size(r);
    /* A \r that does not count waits in the buffer, or in `into`, for its \n. */
    bool cr = f->strip && size && r->buf[r->start + size - 1] == '\r';
    if (cr && size == room(f) + 1) extra = 1;
    if (size - extra > room(f)) return -EMSGSIZE;
    if (extra && !whole && r->ended) return -EMSGSIZE;
    int error = aw_bytes_append(b, r->buf + r->start, size - extra);
    if (error) return error;
    aw__reader_take(f, size - extra);
    f->seen = extra;
    if (!whole) return 0;
    aw__reader_take(f, extra + 1);
    f->seen = 0;
    if (f->strip && !extra && b->size && b->data[b->size - 1] == '\r') b->size--;
    r->terminated = true;
    return 1;
}

/* Where the last call has put its bytes: there, or straight into `into`. (Which may end where the buffer begins.) */
static bool is_in_buffer(const aw_reader *r, const void *data) {
    return (uintptr_t)data - (uintptr_t)r->buf < r->capacity;
}

static bool gather_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    aw_bytes *b = f->into;
    if (n > 0 && !is_in_buffer(r, op->io.data)) {
        b->size += (size_t)n;
        f->done += (size_t)n;
    } else {
        int error = aw__reader_filled(r, n);
        if (error) return aw__calls_over(op, error);
    }
    int over = gather(f);
    if (over) return aw__calls_over(op, over);
    if (r->ended) {
        r->terminated = false;
        return aw__calls_over(op, f->delimiter < 0 ? (ssize_t)f->done : b->size > 0);
    }
    /* All to the end goes where it belongs, without the buffer; when the limit is reached only the end may follow. */
    if (f->delimiter >= 0 || !room(f) || aw__reader_size(r)) return aw__reader_more(op, r, 0);
    size_t more = r->capacity < room(f) ? r->capacity : room(f);
    int error = aw_bytes_reserve(b, more);
    if (error) return aw__calls_over(op, error);
    size_t spare = b->capacity - b->size;
    return aw__calls_read(op, r->conn, b->data + b->size, spare < room(f) ? spare : room(f));
}

/* ---- Poll and cancel -------------------------------------------------------------------------- */

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
    if (f->turn != f->reader->turn) return;
    f->reader->start -= f->back;
    f->done -= f->back;
}

AW__READER_TYPE(fill, aw_reader_fill_type, "reader_fill");
AW__READER_TYPE(read, aw_reader_read_type, "reader_read");
AW__READER_TYPE(read_exact, aw_reader_read_exact_type, "reader_read_exact");
AW__READER_TYPE(until, aw_reader_until_type, "reader_until");
AW__READER_TYPE(gather, aw_reader_gather_type, "reader_gather");
