/* SPDX-License-Identifier: MIT
 *
 * Merge: the items of several sources as they arrive. Polling starts behind the source that
 * delivered last, so a source that is always ready cannot starve the rest. */
#include <awake/merge.h>

#include "base/misuse.h"

enum { SOURCES_MAX = 8 };

typedef struct __attribute__((may_alias)) merge {
    AW__MERGE_HEAD(void);
    aw_stream *sources[SOURCES_MAX];
} merge;

static unsigned bit(unsigned i) {
    return 1u << i;
}

/* Disarms the pending sources. True: one of them has something, and keeps it. */
static bool merge_stop_waiting(merge *m, aw_cx *cx) {
    bool arrived = false;
    for (unsigned i = 0; i < m->count; i++)
        if (m->waiting & bit(i)) arrived |= aw_stream_disarm(m->sources[i], cx);
    m->waiting = 0;
    return arrived;
}

static aw_poll merge_next(aw_stream *self, aw_cx *cx, int *out) {
    merge *m = (merge *)self;
    for (unsigned k = 0; k < m->count; k++) {
        unsigned i = (m->first + k) % m->count;
        if (m->ended & bit(i)) continue;
        if (aw_stream_poll_next(m->sources[i], cx, out) == AW_PENDING) {
            m->waiting |= (uint8_t)bit(i);
            continue;
        }
        m->waiting &= (uint8_t)~bit(i);
        if (*out == 0) {
            m->ended |= (uint8_t)bit(i);
            continue;
        }
        m->first = (uint8_t)((i + 1) % m->count);
        m->last = (uint8_t)i;
        m->item = *aw__stream_item(m->sources[i]);
        merge_stop_waiting(m, cx);
        return AW_READY;
    }
    if (m->waiting) return AW_PENDING;
    *out = 0;
    return AW_READY;
}

static bool merge_disarm(aw_stream *self, aw_cx *cx) {
    return merge_stop_waiting((merge *)self, cx);
}

static aw_poll merge_close(aw_stream *self, aw_cx *cx) {
    merge *m = (merge *)self;
    bool pending = false;
    for (unsigned i = 0; i < m->count; i++) {
        if (m->closed & bit(i)) continue;
        if (aw_stream_poll_close(m->sources[i], cx) == AW_PENDING)
            pending = true;
        else
            m->closed |= (uint8_t)bit(i);
    }
    return pending ? AW_PENDING : AW_READY;
}

static void merge_drop(aw_stream *self, void *item) {
    merge *m = (merge *)self;
    aw_stream_drop_item(m->sources[m->last], item);
}

/* The first future of each source. */
static const aw_future *merge_child(const aw_stream *self, size_t n) {
    const merge *m = (const merge *)self;
    for (unsigned i = 0; i < m->count; i++) {
        const aw_future *child = m->ended & bit(i) ? NULL : aw_stream_child(m->sources[i], 0);
        if (child && n-- == 0) return child;
    }
    return NULL;
}

static const aw_stream_type merge_type = {
    .self_size = sizeof(aw_stream_type),
    .name = "merge",
    .next = merge_next,
    .disarm = merge_disarm,
    .close = merge_close,
    .drop = merge_drop,
    .child = merge_child,
};

void aw_stream_merge_of(aw_stream *s, aw_stream *const *sources, unsigned count) {
    merge *m = (merge *)s;
    if (count > SOURCES_MAX) aw__misuse("a merge of %u streams: at most %d", count, SOURCES_MAX);
    aw__stream_init(s, &merge_type);
    m->count = (uint8_t)count;
    m->first = m->last = m->ended = m->waiting = m->closed = 0;
    for (unsigned i = 0; i < count; i++)
        m->sources[i] = sources[i];
}
