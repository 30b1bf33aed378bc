/* SPDX-License-Identifier: MIT
 *
 * Frames: a length and so many bytes, read and written through the buffers of readers and writers. */
#include <awake/frame.h>

#include "bytes/reader.h"
#include "bytes/writer.h"

/* ---- Lengths ---------------------------------------------------------------------------------- */

enum { HEAD = 4, TOO_LARGE = 0x100, NO_FORMAT = 0x200 }; /* instead of the size of a length */

static bool is_format(unsigned bytes) {
    return bytes == AW_FRAME_VARINT || (bytes >= 1 && bytes <= HEAD);
}

static size_t most_of(unsigned bytes, size_t most) {
    unsigned bits = bytes == AW_FRAME_VARINT ? 7 * HEAD : 8 * bytes;
    size_t fits = (size_t)(((uint64_t)1 << bits) - 1);
    return most && most < fits ? most : fits;
}

uint32_t aw__frame_head(aw_frame format, size_t size, char head[HEAD]) {
    if (!is_format(format.bytes)) return NO_FORMAT;
    if (size > most_of(format.bytes, format.most)) return TOO_LARGE;
    if (format.bytes == AW_FRAME_VARINT) {
        uint32_t n = 0;
        for (; size > 0x7f; size >>= 7)
            head[n++] = (char)(size | 0x80);
        head[n++] = (char)size;
        return n;
    }
    for (unsigned i = 0; i < format.bytes; i++)
        head[format.little ? i : format.bytes - 1u - i] = (char)(size >> 8 * i);
    return format.bytes;
}

/* The size of the length, when all of it is there; 0: more is wanted; or an error. */
static int parse(const unsigned char *at, size_t size, unsigned format, size_t *length) {
    unsigned bytes = format & 0xff;
    *length = 0;
    if (bytes == AW_FRAME_VARINT) {
        for (unsigned i = 0; i < size && i < HEAD; i++) {
            *length |= (size_t)(at[i] & 0x7f) << 7 * i;
            if (!(at[i] & 0x80)) return (int)i + 1;
        }
        return size < HEAD ? 0 : -EBADMSG;
    }
    if (size < bytes) return 0;
    for (unsigned i = 0; i < bytes; i++)
        *length |= (size_t)at[format & 0x100 ? i : bytes - 1 - i] << 8 * i;
    return (int)bytes;
}

/* ---- Reading ---------------------------------------------------------------------------------- */

static bool read_frame_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    int error = aw__reader_filled(r, n);
    if (error) return aw__calls_over(op, error);
    unsigned format = (unsigned)f->delimiter;
    if (!is_format(format & 0xff)) return aw__calls_over(op, -EINVAL);
    size_t size = aw__reader_size(r), length, need = HEAD;
    int head = parse((unsigned char *)r->buf + r->start, size, format, &length);
    if (head < 0) return aw__calls_over(op, head);
    if (head > 0) {
        if (length > most_of(format & 0xff, f->size) || length > r->capacity ||
            (size_t)head > r->capacity - length)
            return aw__calls_over(op, -EMSGSIZE);
        need = (size_t)head + length;
        if (size >= need) {
            r->item = (aw_slice){r->buf + r->start + head, length};
            r->terminated = true;
            return aw__reader_give(f, need, 1);
        }
    }
    if (r->ended) return aw__calls_over(op, size ? -ENODATA : 0);
    return aw__reader_more(op, r, need < r->capacity ? need : r->capacity);
}

AW__READER_TYPE(read_frame, aw_reader_frame_type, "reader_frame");

/* ---- Writing: all of it or nothing ------------------------------------------------------------ */

static bool write_frame_next(aw__calls *op, int n) {
    aw_writer_future *f = (aw_writer_future *)op;
    aw_writer *w = f->writer;
    int error = aw__writer_emptied(w, n);
    if (error) return aw__calls_over(op, error);
    if (f->head_size > HEAD)
        return aw__calls_over(op, f->head_size == NO_FORMAT ? -EINVAL : -EMSGSIZE);
    if (f->size > w->capacity || f->head_size > w->capacity - f->size)
        return aw__calls_over(op, -EMSGSIZE);
    size_t size = aw_writer_size(w), free = w->capacity - size;
    f->draining = size && (f->draining ? size > w->low : aw__writer_is_high(w));
    if (f->draining || free < f->head_size + f->size) {
        f->draining = true;
        return aw__writer_less(op, w);
    }
    aw__writer_add(w, f->head, f->head_size);
    f->done = aw__writer_add(w, f->data, f->size);
    return aw__calls_over(op, (ssize_t)f->done);
}

AW__WRITER_TYPE(write_frame, aw_writer_frame_type, "writer_frame");
