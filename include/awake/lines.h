/* SPDX-License-Identifier: MIT
 *
 * awake/lines.h: the lines, parts or frames of a reader as a stream.
 *
 *     aw_reader_stream lines;
 *     aw_stream_reader(&lines, aw_reader_line(&reader));
 *     AW_STREAM_EACH(self->next, &lines) printf("%.*s\n", (int)lines.item->size, lines.item->data);
 *
 * For filters, takes and merges over what is read. Between two items a read may be on its way: so the stream is
 * closed before the reader, or its frame, goes away, or is used by itself again. What it has not given is in the
 * reader then. */
#ifndef AWAKE_LINES_H
#define AWAKE_LINES_H

#include <awake/reader.h>
#include <awake/stream.h>

AW_C_BEGIN

typedef struct aw_reader_stream {
    AW_STREAM_HEAD(aw_slice);
    aw_reader_future each; /* how an item is read: never polled */
    aw_reader_future now;  /* the one that is being read, or came last */
    aw__held held;
    uint8_t phase; /* private */
} aw_reader_stream;

AW_API extern const aw_stream_type aw_reader_stream_type;

/* `each` is what aw_reader_line, aw_reader_until or aw_reader_frame gives; the reader is borrowed. */
static inline void aw_stream_reader(aw_reader_stream *s, aw_reader_future each) {
    aw__held idle = {{0, 0, 0}, {NULL, NULL}};
    aw__stream_init(&s->stream, &aw_reader_stream_type);
    s->item = &each.reader->item;
    s->each = s->now = each;
    s->held = idle;
    s->phase = 0;
}

AW_C_END

#endif
