/* SPDX-License-Identifier: MIT
 *
 * A future for each item, one at a time, in storage within the stream. */
#include <awake/map_concurrent.h>

#include "task/task_borrows.h"

typedef struct aw__async_map async_map;

enum { /* phase */
       ASYNC_MAP_IDLE,
       ASYNC_MAP_RUNNING,
       ASYNC_MAP_DONE, /* finished; the output is not delivered yet */
       ASYNC_MAP_CLOSED
};

static const struct aw__starts *async_map_starts(const aw_stream *s) {
    return s->type->extra;
}
static aw_future *inner_of(const aw_stream *s) {
    return (aw_future *)(void *)((char *)(uintptr_t)s + async_map_starts(s)->storage_at);
}

aw_poll aw__async_map_next(aw_stream *s, aw_cx *cx, int *out) {
    async_map *m = (async_map *)s;
    if (m->phase == ASYNC_MAP_IDLE) {
        if (aw_stream_poll_next(m->source, cx, out) == AW_PENDING) return AW_PENDING;
        if (*out <= 0) {
            aw__borrow_end(&m->borrow, cx);
            return AW_READY;
        }
        async_map_starts(s)->start(s, inner_of(s));
        m->phase = ASYNC_MAP_RUNNING;
    }
    if (m->phase == ASYNC_MAP_RUNNING &&
        aw__pending_item_poll(&m->pending, inner_of(s), cx) == AW_PENDING) {
        if (!m->borrow.mark) aw__borrow_resume(&m->borrow, inner_of(s), cx);
        return AW_PENDING;
    }
    if (m->borrow.mark) aw__borrow_suspend(&m->borrow, cx);
    m->phase = ASYNC_MAP_IDLE;
    m->item = (char *)inner_of(s) + async_map_starts(s)->out_at;
    *out = 1;
    return AW_READY;
}

bool aw__async_map_disarm(aw_stream *s, aw_cx *cx) {
    async_map *m = (async_map *)s;
    if (m->phase == ASYNC_MAP_IDLE) return aw_stream_disarm(m->source, cx);
    if (m->phase != ASYNC_MAP_RUNNING || !aw__pending_item_disarm(&m->pending, inner_of(s), cx))
        return false;
    m->phase = ASYNC_MAP_DONE;
    aw__borrow_suspend(&m->borrow, cx);
    return true;
}

aw_poll aw__async_map_close(aw_stream *s, aw_cx *cx) {
    async_map *m = (async_map *)s;
    if (m->phase == ASYNC_MAP_RUNNING) {
        aw_poll r = aw__pending_item_cancel(&m->pending, inner_of(s), cx);
        if (r == AW_PENDING) return AW_PENDING;
        if (r == AW_READY) m->phase = ASYNC_MAP_DONE;
    }
    aw__borrow_end(&m->borrow, cx);
    if (m->phase == ASYNC_MAP_DONE) aw_future_discard(inner_of(s));
    m->phase = ASYNC_MAP_CLOSED;
    return aw_stream_poll_close(m->source, cx);
}

/* An output that was moved is no longer in its future, which cannot release it. */
void aw__async_map_drop(aw_stream *s, void *item) {
    if (item == ((async_map *)s)->item) aw_future_discard(inner_of(s));
}

const aw_future *aw__async_map_child(const aw_stream *s, size_t i) {
    const async_map *m = (const async_map *)s;
    if (m->phase != ASYNC_MAP_RUNNING) return aw_stream_child(m->source, i);
    return i == 0 ? inner_of(s) : NULL;
}
