/* SPDX-License-Identifier: MIT
 *
 * Streams over one other stream. What needs the types of the items is in the header. */
#include <awake/stream.h>

static aw_stream *source_of(const aw_stream *s) {
    return ((const struct aw__over *)s)->source;
}

bool aw__over_rest(aw_stream *s, aw_cx *cx) {
    return aw_stream_rest(source_of(s), cx);
}

aw_poll aw__over_close(aw_stream *s, aw_cx *cx) {
    return aw_stream_poll_close(source_of(s), cx);
}

const aw_future *aw__over_child(const aw_stream *s, size_t i) {
    return aw_stream_child(source_of(s), i);
}

void aw__over_drop(aw_stream *s, void *item) {
    aw_stream_drop_item(source_of(s), item);
}

/* ---- take and skip ---------------------------------------------------------------------------- */

typedef AW_TAKE(void) __attribute__((may_alias)) counted;

static aw_poll take_next(aw_stream *self, aw_cx *cx, int *out) {
    counted *s = (counted *)self;
    *out = 0;
    if (!s->count) return AW_READY;
    if (aw_stream_poll_next(s->source, cx, out) == AW_PENDING) return AW_PENDING;
    if (*out > 0) {
        s->count--;
        s->item = *aw__stream_item(s->source);
    }
    return AW_READY;
}

static aw_poll skip_next(aw_stream *self, aw_cx *cx, int *out) {
    counted *s = (counted *)self;
    for (;;) {
        if (aw_stream_poll_next(s->source, cx, out) == AW_PENDING) return AW_PENDING;
        s->item = *aw__stream_item(s->source);
        if (*out <= 0 || !s->count) return AW_READY;
        s->count--;
        aw_stream_drop_item(s->source, s->item);
    }
}

#define OVER                                                                                       \
    .self_size = sizeof(aw_stream_type), .rest = aw__over_rest, .close = aw__over_close,           \
    .drop = aw__over_drop, .child = aw__over_child

const aw_stream_type aw_take_type = {OVER, .name = "take", .next = take_next};
const aw_stream_type aw_skip_type = {OVER, .name = "skip", .next = skip_next};
