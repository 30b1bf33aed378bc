/* SPDX-License-Identifier: MIT
 *
 * Frames, each with its length in front, through the buffers of readers and writers. */
#include <awake/frame.h>

#include "bytes/reader_calls.h"
#include "bytes/writer_calls.h"

/* ---- Length ---------------------------------------------------------------------------------- */

/* Bytes of a length; and the errors of aw__frame_head. */
enum { HEAD_MAX = 4, TOO_LARGE = 0x100, NO_FORMAT = 0x200 };

static bool is_format(unsigned bytes) {
    return bytes == AW_FRAME_VARINT || (bytes >= 1 && bytes <= HEAD_MAX);
}

static size_t max_length(unsigned bytes, size_t limit) {
    unsigned bits = bytes == AW_FRAME_VARINT ? 7 * HEAD_MAX : 8 * bytes;
    size_t fits = (size_t)(((uint64_t)1 << bits) - 1);
    return limit && limit < fits ? limit : fits;
}

uint32_t aw__frame_head(aw_frame format, size_t size, char head[HEAD_MAX]) {
    if (!is_format(format.bytes)) return NO_FORMAT;
    if (size > max_length(format.bytes, format.max_size)) return TOO_LARGE;
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

/* The size of the length; 0: incomplete; or a negative errno. */
static int parse_head(const unsigned char *at, size_t size, unsigned format, size_t *length) {
    unsigned bytes = format & 0xff;
    *length = 0;
    if (bytes == AW_FRAME_VARINT) {
        for (unsigned i = 0; i < size && i < HEAD_MAX; i++) {
            *length |= (size_t)(at[i] & 0x7f) << 7 * i;
            if (!(at[i] & 0x80)) return (int)i + 1;
        }
        return size < HEAD_MAX ? 0 : -EBADMSG;
    }
    if (size < bytes) return 0;
    for (unsigned i = 0; i < bytes; i++)
        *length |= (size_t)at[format & 0x100 ? i : bytes - 1 - i] << 8 * i;
    return (int)bytes;
}

/* ---- Read ------------------------------------------------------------------------------------ */

static bool read_frame_next(aw__calls *op, int n) {
    aw_reader_future *f = (aw_reader_future *)op;
    aw_reader *r = f->reader;
    int error = aw__reader_filled(r, n);
    if (error) return aw__calls_finish(op, error);
    unsigned format = (unsigned)f->delimiter;
    if (!is_format(format & 0xff)) return aw__calls_finish(op, -EINVAL);
    size_t size = aw__reader_size(r), length, need = HEAD_MAX;
    int head = parse_head((unsigned char *)r->buf + r->start, size, format, &length);
    if (head < 0) return aw__calls_finish(op, head);
    if (head > 0) {
        if (length > max_length(format & 0xff, f->size) || length > r->capacity ||
            (size_t)head > r->capacity - length)
            return aw__calls_finish(op, -EMSGSIZE);
        need = (size_t)head + length;
        if (size >= need) {
            r->item = (aw_slice){r->buf + r->start + head, length};
            r->terminated = true;
            return aw__reader_deliver(f, need, 1);
        }
    }
    if (r->ended) return aw__calls_finish(op, size ? -ENODATA : 0);
    return aw__reader_read_more(op, r, need < r->capacity ? need : r->capacity);
}

AW__READER_TYPE(read_frame, aw_reader_frame_type, "reader_frame");

/* ---- Write: all of a frame or nothing -------------------------------------------------------- */

static bool write_frame_next(aw__calls *op, int n) {
    aw_writer_future *f = (aw_writer_future *)op;
    aw_writer *w = f->writer;
    int error = aw__writer_wrote(w, n);
    if (error) return aw__calls_finish(op, error);
    if (f->head_size > HEAD_MAX)
        return aw__calls_finish(op, f->head_size == NO_FORMAT ? -EINVAL : -EMSGSIZE);
    if (f->size > w->capacity || f->head_size > w->capacity - f->size)
        return aw__calls_finish(op, -EMSGSIZE);
    size_t size = aw_writer_size(w), free = w->capacity - size;
    f->draining = size && (f->draining ? size > w->low : aw__writer_is_high(w));
    if (f->draining || free < f->head_size + f->size) {
        f->draining = true;
        return aw__writer_write_out(op, w);
    }
    aw__writer_add(w, f->head, f->head_size);
    f->done = aw__writer_add(w, f->data, f->size);
    return aw__calls_finish(op, (ssize_t)f->done);
}

AW__WRITER_TYPE(write_frame, aw_writer_frame_type, "writer_frame");
