/* SPDX-License-Identifier: MIT
 *
 * Merge: whoever has something. The round of asking goes on behind the one that gave last, so one that always has something
 * cannot starve the others. */
#include <awake/merge.h>

#include "core/misuse.h"

enum { SOURCES_MAX = 8 };

typedef struct __attribute__((may_alias)) merge {
    AW__MERGE_HEAD(void);
    aw_stream *sources[SOURCES_MAX];
} merge;

static unsigned bit(unsigned i) {
    return 1u << i;
}

/* Those that were asked in vain keep no waker. What comes in this moment stays with them. */
static bool rest(merge *m, aw_cx *cx) {
    bool came = false;
    for (unsigned i = 0; i < m->count; i++)
        if (m->waiting & bit(i)) came |= aw_stream_rest(m->sources[i], cx);
    m->waiting = 0;
    return came;
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
        rest(m, cx);
        return AW_READY;
    }
    if (m->waiting) return AW_PENDING;
    *out = 0;
    return AW_READY;
}

static bool merge_rest(aw_stream *self, aw_cx *cx) {
    return rest((merge *)self, cx);
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

/* Of each source the first. */
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
    .rest = merge_rest,
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
