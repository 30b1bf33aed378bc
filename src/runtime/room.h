/* SPDX-License-Identifier: MIT
 *
 * Room for tasks. What an ended task leaves behind is kept for the next one of its size, by the owner
 * only and up to a limit, so that a spawn in a busy runtime does not call malloc. Everything goes back
 * when the runtime ends. An allocator of the user's sees each task by itself, and so do sanitizers: for
 * them nothing is kept. */
#ifndef AW_RUNTIME_ROOM_H
#define AW_RUNTIME_ROOM_H

#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AW__KEEP_ROOMS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define AW__KEEP_ROOMS 0
#endif
#endif
#ifndef AW__KEEP_ROOMS
#define AW__KEEP_ROOMS 1
#endif

enum {
    AW__ROOM_STEP = 16,
    AW__ROOM_SIZES = 32,  /* larger ones are not kept */
    AW__ROOM_LIMIT = 1024 /* of each size */
};

struct aw__room {
    struct aw__room *next;
};

typedef struct aw__rooms {
    struct aw__room *free[AW__ROOM_SIZES];
    uint16_t count[AW__ROOM_SIZES];
} aw__rooms;

struct aw_runtime;

/* NULL when there is no memory. Any thread; only the owner gets and gives what is kept. */
void *aw__room_take(struct aw_runtime *rt, size_t size);
void aw__room_give(struct aw_runtime *rt, void *room, size_t size);
/* Give back what was kept. By the owner. */
void aw__rooms_release(struct aw_runtime *rt);

#endif
