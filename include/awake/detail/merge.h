/* SPDX-License-Identifier: MIT
 *
 * awake/detail/merge.h: private. The layout of merges and chunks, and the macros that start
 * them. */
#ifndef AWAKE_DETAIL_MERGE_H
#define AWAKE_DETAIL_MERGE_H

#include <awake/detail/for_each.h>
#include <awake/stream.h>

AW_C_BEGIN

#define AW__MERGE_HEAD(T)                                                                          \
    AW_STREAM_HEAD(T);                                                                             \
    uint8_t count, first;          /* index of the source to poll first */                         \
    uint8_t last;                  /* source of the latest item */                                 \
    uint8_t ended, waiting, closed /* a bit per source */

#ifndef __cplusplus

#define AW__STREAM_MERGE(s, ...)                                                                   \
    __extension__({                                                                                \
        __typeof__(s) aw__s = (s);                                                                 \
        aw_stream *aw__from[] = {AW__FOR_EACH8(AW__MERGE_SOURCE, aw__s, __VA_ARGS__)};             \
        _Static_assert(sizeof aw__from == sizeof aw__s->sources, "as many streams as it is for");  \
        aw_stream_merge_of(&aw__s->stream, aw__from, AW__COUNT8(__VA_ARGS__));                     \
    })
/* A source with another item type does not compile. */
#define AW__MERGE_SOURCE(s, i, from)                                                               \
    ((void)sizeof(_Generic((from)->item, __typeof__(s->item) : 0)), &(from)->stream),

#endif

struct aw__chunks {
    uint64_t timeout, deadline;
    aw_sleep timer;
    aw_stream *source;
    size_t size, capacity;         /* of an item; of a chunk */
    uint32_t storage_at, items_at; /* offsets from the stream */
    int error;                     /* reported after this chunk */
    /* `taken`: the items in `storage` are the caller's. `waiting`: the source is pending. */
    bool ended, taken, waiting;
};
AW_API void aw__stream_chunks(aw_stream *s, aw_stream *source, uint64_t timeout, size_t size,
                              size_t capacity, size_t storage_at, size_t items_at);

#define AW__STREAM_CHUNKS(s, from, after)                                                          \
    __extension__({                                                                                \
        __typeof__(s) aw__s = (s);                                                                 \
        AW__SAME_ITEMS((from)->item, &aw__s->storage.items[0]);                                    \
        aw__stream_chunks(&aw__s->stream, &(from)->stream, (after),                                \
                          sizeof aw__s->storage.items[0],                                          \
                          sizeof aw__s->storage.items / sizeof aw__s->storage.items[0],            \
                          (size_t)((char *)&aw__s->storage - (char *)&aw__s->stream),              \
                          (size_t)((char *)&aw__s->storage.items - (char *)&aw__s->stream));       \
    })

AW_C_END

#endif
