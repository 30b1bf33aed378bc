/* SPDX-License-Identifier: MIT
 *
 * awake/frame.h: messages in a byte stream, each with its length in front.
 *
 *     static const aw_frame frame = {.bytes = 4, .max_size = 65536};
 *
 *     while ((n = aw_await(aw_reader_frame(&r, frame))) > 0)                          in a fiber
 *         answer(r.item.data, r.item.size);
 *     AW_AWAIT(self->write, aw_writer_frame(&w, frame, data, size));                  then flush
 *
 * The buffers of reader and writer must hold the largest frame with its length. If cancelled, no
 * part of a frame was taken or written. */
#ifndef AWAKE_FRAME_H
#define AWAKE_FRAME_H

#include <awake/reader.h>
#include <awake/writer.h>

AW_C_BEGIN

typedef struct aw_frame {
    uint8_t bytes;     /* size of the length: 1 to 4, or AW_FRAME_VARINT */
    bool little;       /* little-endian; default: big-endian (network order) */
    uint32_t max_size; /* limit of a frame, without its length; 0: what the length can express */
} aw_frame;

/* Seven bits per byte, lowest first; the eighth bit is set if another byte follows. At most 28
 * bits. */
enum { AW_FRAME_VARINT = 0x80 };

AW_API extern const aw_future_type aw_reader_frame_type;
AW_API extern const aw_future_type aw_writer_frame_type;

/* Private. */
AW_API uint32_t aw__frame_head(aw_frame format, size_t size, char head[4]);

/* The next frame, as r->item. `out`: 1; 0 at the end; -ENODATA: the input ends within a frame;
 * -EMSGSIZE: larger than `max_size` or than the buffer; -EBADMSG: invalid varint; -EINVAL: invalid
 * format. */
static inline aw_reader_future aw_reader_frame(aw_reader *r, aw_frame format) {
    return aw__reader(&aw_reader_frame_type, r, NULL, format.max_size, NULL,
                      format.bytes | (format.little ? 0x100 : 0), false);
}

/* `out`: `size`: the frame is in the buffer; -EMSGSIZE: larger than `max_size` or than the buffer;
 * -EINVAL: invalid format. */
static inline aw_writer_future aw_writer_frame(aw_writer *w, aw_frame format, const void *data,
                                               size_t size) {
    aw_writer_future f = aw__writer(&aw_writer_frame_type, w, data, size);
    f.head_size = aw__frame_head(format, size, f.head);
    return f;
}

AW_C_END

#endif
