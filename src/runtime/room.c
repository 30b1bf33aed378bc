/* SPDX-License-Identifier: MIT */
#include "runtime/room.h"

#include "core/alloc.h"
#include "runtime/runtime.h"

/* Sizes are rounded up to what malloc would give anyway: 8 more than a multiple of 16. */
static size_t steps_of(size_t size) {
    return (size + 7) / AW__ROOM_STEP;
}
static size_t bytes_of(size_t steps) {
    return steps * AW__ROOM_STEP + 8;
}

static bool keeps(const aw_runtime *rt, size_t steps) {
    return AW__KEEP_ROOMS && steps < AW__ROOM_SIZES && rt->allocator == &aw__heap &&
           aw__is_owner(rt);
}

void *aw__room_take(aw_runtime *rt, size_t size) {
    size_t steps = steps_of(size);
    if (keeps(rt, steps)) {
        struct aw__room *room = rt->rooms.free[steps];
        if (room) {
            rt->rooms.free[steps] = room->next;
            rt->rooms.count[steps]--;
            return room;
        }
    }
    return aw__alloc(rt->allocator, bytes_of(steps));
}

void aw__room_give(aw_runtime *rt, void *memory, size_t size) {
    size_t steps = steps_of(size);
    if (keeps(rt, steps) && rt->rooms.count[steps] < AW__ROOM_LIMIT) {
        struct aw__room *room = memory;
        room->next = rt->rooms.free[steps];
        rt->rooms.free[steps] = room;
        rt->rooms.count[steps]++;
        return;
    }
    aw__release(rt->allocator, memory, bytes_of(steps));
}

void aw__rooms_release(aw_runtime *rt) {
    for (size_t steps = 0; steps < AW__ROOM_SIZES; steps++) {
        for (struct aw__room *room = rt->rooms.free[steps], *next; room; room = next) {
            next = room->next;
            aw__release(rt->allocator, room, bytes_of(steps));
        }
        rt->rooms.free[steps] = NULL;
        rt->rooms.count[steps] = 0;
    }
}
