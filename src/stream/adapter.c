/* SPDX-License-Identifier: MIT
 *
 * Streams with one source. The parts that depend on item types are in the header. */
#include <awake/stream.h>

static aw_stream *source_of(const aw_stream *s) {
    return ((const struct aw__adapter *)s)->source;
}

bool aw__adapter_disarm(aw_stream *s, aw_cx *cx) {
    return aw_stream_disarm(source_of(s), cx);
}

aw_poll aw__adapter_close(aw_stream *s, aw_cx *cx) {
    return aw_stream_poll_close(source_of(s), cx);
}

const aw_future *aw__adapter_child(const aw_stream *s, size_t i) {
    return aw_stream_child(source_of(s), i);
}

void aw__adapter_drop(aw_stream *s, void *item) {
    aw_stream_drop_item(source_of(s), item);
}

/* ---- take and skip --------------------------------------------------------------------------- */

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

#define ADAPTER_FUNCTIONS                                                                          \
    .self_size = sizeof(aw_stream_type), .disarm = aw__adapter_disarm, .close = aw__adapter_close, \
    .drop = aw__adapter_drop, .child = aw__adapter_child

const aw_stream_type aw_take_type = {ADAPTER_FUNCTIONS, .name = "take", .next = take_next};
const aw_stream_type aw_skip_type = {ADAPTER_FUNCTIONS, .name = "skip", .next = skip_next};
