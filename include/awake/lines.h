/* SPDX-License-Identifier: MIT
 *
 * awake/lines.h: the lines, parts or frames of a reader as a stream.
 *
 *     aw_reader_stream lines;
 *     aw_stream_reader(&lines, aw_reader_line(&reader));
 *     AW_STREAM_EACH(self->next, &lines) printf("%.*s\n", (int)lines.item->size, lines.item->data);
 *
 * For filters, takes and merges over input. Between two items a read may be in flight. So close the
 * stream before the reader or its frame ends, and before you use the reader directly again. Input
 * that the stream has not delivered is then in the reader.
 *
 * An error is reported once, and ends the stream: a failed read; -EMSGSIZE: a line, part or frame
 * that is too long; and the other errors of awake/reader.h and awake/frame.h. You can still use the
 * reader: after -EMSGSIZE the beginning of the item is in its buffer. To skip a line that is too
 * long, consume the buffer until a read of a line succeeds (it returns the rest), then begin
 * another stream:
 *     while ((n = aw_await(aw_reader_line(&reader))) == -EMSGSIZE)
 *         aw_reader_consume(&reader, aw_reader_peek(&reader).size); */
#ifndef AWAKE_LINES_H
#define AWAKE_LINES_H

#include <awake/reader.h>
#include <awake/stream.h>

AW_C_BEGIN

typedef struct aw_reader_stream {
    AW_STREAM_HEAD(aw_slice);
    aw_reader_future each; /* how to read an item; never polled */
    aw_reader_future now;  /* reads the next item, or read the latest */
    aw__pending_item pending;
    uint8_t phase; /* private */
} aw_reader_stream;

AW_API extern const aw_stream_type aw_reader_stream_type;

/* `each` comes from aw_reader_line, aw_reader_until or aw_reader_frame. The reader is borrowed. */
static inline void aw_stream_reader(aw_reader_stream *s, aw_reader_future each) {
    aw__pending_item idle = {{0, 0, 0}, {NULL, NULL}};
    aw__stream_init(&s->stream, &aw_reader_stream_type);
    s->item = &each.reader->item;
    s->each = s->now = each;
    s->pending = idle;
    s->phase = 0;
}

AW_C_END

#endif
