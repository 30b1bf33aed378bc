/* SPDX-License-Identifier: MIT
 *
 * awake/merge.h: several streams as one; and items in groups.
 *
 *     AW_MERGE(int, 2) both;
 *     aw_stream_merge(&self->both, &self->a, &self->b);
 *
 * The items of one to eight streams as they come. The one that gave an item is asked last for the next, so none
 * waits for ever. An error of one is told, and the others go on.
 *
 *     AW_CHUNKS(int, 16) chunks;
 *     aw_stream_chunks(&self->chunks, &self->both, AW_MSEC(5));
 *     AW_STREAM_EACH(self->next, &self->chunks)
 *         write_all(self->chunks.item->items, self->chunks.item->count);
 *
 * Up to so many items, moved into one place; fewer at the end, before an error, and when that time has passed since
 * the first of them came (AW_FOREVER: no such time). An item that is there at the deadline is still in the chunk; and
 * when nobody waits, what was gathered stays for the next one who does. */
#ifndef AWAKE_MERGE_H
#define AWAKE_MERGE_H

#include <awake/stream.h>

AW_C_BEGIN

/* ---- Merge ------------------------------------------------------------------------------------ */

#define AW_MERGE(T, n)                                                                             \
    struct {                                                                                       \
        AW__MERGE_HEAD(T);                                                                         \
        aw_stream *sources[n];                                                                     \
    }
#define AW__MERGE_HEAD(T)                                                                          \
    AW_STREAM_HEAD(T);                                                                             \
    uint8_t count, first;          /* who is asked first */                                        \
    uint8_t last;                  /* who gave the item that came last */                          \
    uint8_t ended, waiting, closed /* a bit for each */

/* The erased form. `s` has room for `count` sources, of items of one type. */
AW_API void aw_stream_merge_of(aw_stream *s, aw_stream *const *sources, unsigned count);

#ifndef __cplusplus

#define aw_stream_merge(s, ...)                                                                    \
    __extension__({                                                                                \
        __typeof__(s) aw__s = (s);                                                                 \
        aw_stream *aw__from[] = {AW__CAT(AW__SOURCES, AW__COUNT8(__VA_ARGS__))(__VA_ARGS__)};      \
        _Static_assert(sizeof aw__from == sizeof aw__s->sources, "as many streams as it is for");  \
        aw_stream_merge_of(&aw__s->stream, aw__from, AW__COUNT8(__VA_ARGS__));                     \
    })
#define AW__SOURCE(from)                                                                           \
    ((void)sizeof(_Generic((from)->item, __typeof__(aw__s->item) : 0)), &(from)->stream)
#define AW__SOURCES1(a)                      AW__SOURCE(a)
#define AW__SOURCES2(a, b)                   AW__SOURCES1(a), AW__SOURCE(b)
#define AW__SOURCES3(a, b, c)                AW__SOURCES2(a, b), AW__SOURCE(c)
#define AW__SOURCES4(a, b, c, d)             AW__SOURCES3(a, b, c), AW__SOURCE(d)
#define AW__SOURCES5(a, b, c, d, e)          AW__SOURCES4(a, b, c, d), AW__SOURCE(e)
#define AW__SOURCES6(a, b, c, d, e, f)       AW__SOURCES5(a, b, c, d, e), AW__SOURCE(f)
#define AW__SOURCES7(a, b, c, d, e, f, g)    AW__SOURCES6(a, b, c, d, e, f), AW__SOURCE(g)
#define AW__SOURCES8(a, b, c, d, e, f, g, h) AW__SOURCES7(a, b, c, d, e, f, g), AW__SOURCE(h)

#endif

/* ---- Chunks ----------------------------------------------------------------------------------- */

#define AW_CHUNKS(T, n)                                                                            \
    struct {                                                                                       \
        struct aw__chunks chunks;                                                                  \
        aw_stream stream;                                                                          \
        struct {                                                                                   \
            size_t count;                                                                          \
            T items[n];                                                                            \
        } * item, room;                                                                            \
    }
struct aw__chunks {
    uint64_t timeout, deadline;
    aw_sleep timer;
    aw_stream *source;
    size_t size, capacity;      /* of an item; of a chunk */
    uint32_t room_at, items_at; /* from the stream */
    int error;                  /* that comes after this chunk */
    bool ended, taken,
        waiting; /* taken: what is in the room is the caller's; waiting: the source is */
};
AW_API void aw__stream_chunks(aw_stream *s, aw_stream *source, uint64_t timeout, size_t size,
                              size_t capacity, size_t room_at, size_t items_at);

#define aw_stream_chunks(s, from, after)                                                           \
    __extension__({                                                                                \
        __typeof__(s) aw__s = (s);                                                                 \
        AW__SAME_ITEMS((from)->item, &aw__s->room.items[0]);                                       \
        aw__stream_chunks(&aw__s->stream, &(from)->stream, (after), sizeof aw__s->room.items[0],   \
                          sizeof aw__s->room.items / sizeof aw__s->room.items[0],                  \
                          (size_t)((char *)&aw__s->room - (char *)&aw__s->stream),                 \
                          (size_t)((char *)&aw__s->room.items - (char *)&aw__s->stream));          \
    })

AW_C_END

#endif
