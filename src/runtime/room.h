/* SPDX-License-Identifier: MIT
 *
 * Room for tasks, and the list of all of them. A task lies in a room, which begins with what its tasks
 * have in common and is found from the task: most rooms are *slabs* with space for many tasks of one
 * size; others have space for one: those of a task that another thread spawned, of a large one, of one
 * in storage of the caller's, and of every task when the allocator is the user's, who shall see each of
 * them (so shall a sanitizer).
 *
 * A room belongs to the owner of its runtime; once the runtime has ended, to who has its lock. The
 * exception is a room that another thread has just taken, until the owner adopts its task. A slab that
 * is empty is given back, unless it is the only one of its size that has space. */
#ifndef AW_RUNTIME_ROOM_H
#define AW_RUNTIME_ROOM_H

#include <stddef.h>
#include <stdint.h>

/* Unless somebody has said it. */
#ifndef AW__SLABS
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(AW_VALGRIND)
#define AW__SLABS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define AW__SLABS 0
#endif
#endif
#endif
#ifndef AW__SLABS
#define AW__SLABS 1
#endif

enum {
    AW__ROOM_STEP = 16,  /* sizes and places are counted in steps: what a future is aligned to */
    AW__ROOM_SIZES = 32, /* a larger task has a room of its own */
    AW__SLAB_BYTES = 65536 - AW__ROOM_STEP /* with malloc's header 64 KiB */
};

struct aw_runtime;
struct aw__task;

typedef enum aw__room_kind {
    AW__ROOM_NEW, /* for one, and not in the list yet */
    AW__ROOM_ONE,
    AW__ROOM_SLAB
} aw__room_kind;

/* Other threads read `rt`, so what changes often is elsewhere. */
typedef struct aw__room aw__room;
struct aw__room {
    struct aw_runtime *rt; /* NULL: storage of the caller's that is not in use */
    aw__room *next, *prev;
    uint32_t size; /* in bytes, 0: storage of the caller's; of a slab: of a task in it, in steps */
    aw__room_kind kind;
};

typedef struct aw__rooms {
    /* By the size of their tasks in steps: slabs that have space. The first, which no task has: the
     * others. */
    aw__room *lists[AW__ROOM_SIZES];
} aw__rooms;

/* Space for a task and its frame, found in a room; NULL when there is no memory. Any thread. */
struct aw__task *aw__room_take(struct aw_runtime *rt, size_t frame_size);
/* The same in storage that is not in use. */
struct aw__task *aw__room_in(struct aw_runtime *rt, void *storage);
/* Put a task that another thread has spawned into the list; by the owner. */
void aw__room_adopt(struct aw__task *t);
/* The task is gone. */
void aw__room_give(struct aw__task *t);
/* The runtime has ended: give back what is empty. */
void aw__rooms_release(struct aw_runtime *rt);

/* All tasks that have not ended:
 *     for (aw__walk w = {.rt = rt}; (t = aw__walk_next(&w));) */
typedef struct aw__walk {
    const struct aw_runtime *rt;
    aw__room *room; /* of the next one; NULL: the next list's first */
    uint32_t list;  /* the next one */
    uint32_t place; /* in the room, in steps; 0: the first */
} aw__walk;
struct aw__task *aw__walk_next(aw__walk *w);

#endif
