/* SPDX-License-Identifier: MIT
 *
 * A future for each item, one at a time, in room that the stream has for it. */
#include <awake/buffered.h>

#include "runtime/opened.h"

typedef struct aw__async_map async_map;

enum { /* phase */
       IDLE,
       RUNNING,
       DONE, /* it has finished, and nobody has its output */
       CLOSED
};

static const struct aw__starts *starts_of(const aw_stream *s) {
    return s->type->extra;
}
static aw_future *inner_of(const aw_stream *s) {
    return (aw_future *)(void *)((char *)(uintptr_t)s + starts_of(s)->room_at);
}

aw_poll aw__async_map_next(aw_stream *s, aw_cx *cx, int *out) {
    async_map *m = (async_map *)s;
    if (m->phase == IDLE) {
        if (aw_stream_poll_next(m->source, cx, out) == AW_PENDING) return AW_PENDING;
        if (*out <= 0) {
            aw__open_end(&m->opened, cx);
            return AW_READY;
        }
        starts_of(s)->start(s, inner_of(s));
        m->phase = RUNNING;
    }
    if (m->phase == RUNNING && aw__held_poll(&m->held, inner_of(s), cx) == AW_PENDING) {
        if (!m->opened.mark) aw__open_again(&m->opened, inner_of(s), cx);
        return AW_PENDING;
    }
    if (m->opened.mark) aw__open_rest(&m->opened, cx);
    m->phase = IDLE;
    m->item = (char *)inner_of(s) + starts_of(s)->out_at;
    *out = 1;
    return AW_READY;
}

bool aw__async_map_rest(aw_stream *s, aw_cx *cx) {
    async_map *m = (async_map *)s;
    if (m->phase == IDLE) return aw_stream_rest(m->source, cx);
    if (m->phase != RUNNING || !aw__held_rest(&m->held, inner_of(s), cx)) return false;
    m->phase = DONE;
    aw__open_rest(&m->opened, cx);
    return true;
}

aw_poll aw__async_map_close(aw_stream *s, aw_cx *cx) {
    async_map *m = (async_map *)s;
    if (m->phase == RUNNING) {
        aw_poll r = aw__held_cancel(&m->held, inner_of(s), cx);
        if (r == AW_PENDING) return AW_PENDING;
        if (r == AW_READY) m->phase = DONE;
    }
    aw__open_end(&m->opened, cx);
    if (m->phase == DONE) aw_future_discard(inner_of(s));
    m->phase = CLOSED;
    return aw_stream_poll_close(m->source, cx);
}

/* Moved, the output has left its future, which cannot help any more. */
void aw__async_map_drop(aw_stream *s, void *item) {
    if (item == ((async_map *)s)->item) aw_future_discard(inner_of(s));
}

const aw_future *aw__async_map_child(const aw_stream *s, size_t i) {
    const async_map *m = (const async_map *)s;
    if (m->phase != RUNNING) return aw_stream_child(m->source, i);
    return i == 0 ? inner_of(s) : NULL;
}
