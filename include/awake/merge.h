/* SPDX-License-Identifier: MIT
 *
 * awake/merge.h: several streams as one, and items in chunks.
 *
 *     AW_MERGE(int, 2) both;
 *     aw_stream_merge(&self->both, &self->a, &self->b);
 *
 * Delivers the items of one to eight streams as they arrive. The stream that delivered last is
 * polled last, so none starves. An error of one is reported, and the other streams continue.
 *
 *     AW_CHUNKS(int, 16) chunks;
 *     aw_stream_chunks(&self->chunks, &self->both, AW_MSEC(5));
 *     AW_STREAM_EACH(self->next, &self->chunks)
 *         write_all(self->chunks.item->items, self->chunks.item->count);
 *
 * Gathers up to 16 items into one chunk. A chunk is smaller at the end, before an error, and when
 * the time has passed since its first item arrived (AW_FOREVER: no time limit). An item that is
 * there at the deadline still belongs to the chunk. If a `next` is cancelled, the gathered items
 * stay for the next one. */
#ifndef AWAKE_MERGE_H
#define AWAKE_MERGE_H

#include <awake/detail/merge.h>
#include <awake/stream.h>

AW_C_BEGIN

/* ---- Merge ----------------------------------------------------------------------------------- */

#define AW_MERGE(T, n)                                                                             \
    struct {                                                                                       \
        AW__MERGE_HEAD(T);                                                                         \
        aw_stream *sources[n];                                                                     \
    }
#ifndef __cplusplus
#define aw_stream_merge(s, ...) AW__STREAM_MERGE(s, __VA_ARGS__)
#endif
/* The untyped form. `s` has space for `count` sources, all of the same item type. */
AW_API void aw_stream_merge_of(aw_stream *s, aw_stream *const *sources, unsigned count);

/* ---- Chunks ---------------------------------------------------------------------------------- */

#define AW_CHUNKS(T, n)                                                                            \
    struct {                                                                                       \
        struct aw__chunks chunks;                                                                  \
        aw_stream stream;                                                                          \
        struct {                                                                                   \
            size_t count;                                                                          \
            T items[n];                                                                            \
        } * item, storage;                                                                         \
    }
#define aw_stream_chunks(s, from, after) AW__STREAM_CHUNKS(s, from, after)

AW_C_END

#endif
