/* SPDX-License-Identifier: MIT
 *
 * awake/frame.h: messages in a stream of bytes: each with its length in front of it.
 *
 *     static const aw_frame frame = {.bytes = 4, .most = 65536};
 *
 *     while ((n = aw_await(aw_reader_frame(&r, frame))) > 0)                          in a fiber
 *         answer(r.item.data, r.item.size);
 *     AW_AWAIT(self->write, aw_writer_frame(&w, frame, data, size));                  and then a flush
 *
 * A frame lies in the buffer as a whole, with its length: buffers of reader and writer are as large as the largest one and
 * its length. Cancelled, nothing of a frame was taken, or written. */
#ifndef AWAKE_FRAME_H
#define AWAKE_FRAME_H

#include <awake/reader.h>
#include <awake/writer.h>

AW_C_BEGIN

typedef struct aw_frame {
    uint8_t bytes; /* of the length: 1 to 4, or AW_FRAME_VARINT */
    bool little;   /* its first byte is the lowest; otherwise the highest, as networks have it */
    uint32_t most; /* bytes in a frame, without the length; 0: what its length can say */
} aw_frame;

/* Seven bits in each byte, the lowest first, and the eighth says that another one follows; at most 28 bits. */
enum { AW_FRAME_VARINT = 0x80 };

AW_API extern const aw_future_type aw_reader_frame_type;
AW_API extern const aw_future_type aw_writer_frame_type;

/* Private. */
AW_API uint32_t aw__frame_head(aw_frame format, size_t size, char head[4]);

/* The next one, as r->item. `out`: 1; 0 at the end; -ENODATA when it ends within a frame; -EMSGSIZE when it is larger than
 * `most`, or than the buffer; -EBADMSG: no such varint; -EINVAL: no such format. */
static inline aw_reader_future aw_reader_frame(aw_reader *r, aw_frame format) {
    return aw__reader(&aw_reader_frame_type, r, NULL, format.most, NULL,
                      format.bytes | (format.little ? 0x100 : 0), false);
}

/* `out`: `size`, when it is in the buffer; -EMSGSIZE when it is larger than `most`, or than the buffer; -EINVAL: no such
 * format. */
static inline aw_writer_future aw_writer_frame(aw_writer *w, aw_frame format, const void *data,
                                               size_t size) {
    aw_writer_future f = aw__writer(&aw_writer_frame_type, w, data, size);
    f.head_size = aw__frame_head(format, size, f.head);
    return f;
}

AW_C_END

#endif
