/* SPDX-License-Identifier: MIT */
#include "runtime/room.h"

#include "core/alloc.h"
#include "runtime/runtime.h"

typedef struct slab {
    aw__room room;
    char apart[32]; /* in another cache line: */
    aw__task *free; /* given back, linked through `next` */
    uint16_t used;  /* tasks in it */
    uint16_t capacity;
    uint16_t fresh; /* where nobody has been yet, in steps */
} slab;

enum {
    STEP = AW__ROOM_STEP,
    TASK = sizeof(aw__task) / STEP,
    FIRST = sizeof(aw__room) / STEP, /* where the task is in a room for one */
    FIRST_OF_SLAB = (sizeof(slab) + STEP - 1) / STEP,
    SLAB = AW__SLAB_BYTES / STEP
};

_Static_assert(sizeof(aw__task) % STEP == 0 && sizeof(aw__room) % STEP == 0, "frames are aligned");

static aw__task *task_at(aw__room *r, unsigned place) {
    return (aw__task *)(void *)((char *)r + (size_t)place * STEP);
}

static void list_add(aw__room **list, aw__room *r) {
    r->prev = NULL;
    r->next = *list;
    if (r->next) r->next->prev = r;
    *list = r;
}

static void list_remove(aw__room **list, aw__room *r) {
    if (r->next) r->next->prev = r->prev;
    if (r->prev)
        r->prev->next = r->next;
    else
        *list = r->next;
}

/* ---- For one ---------------------------------------------------------------------------------- */

void aw__room_adopt(aw__task *t) {
    aw__room *r = aw__task_room(t);
    r->kind = AW__ROOM_ONE;
    list_add(&r->rt->rooms.lists[0], r);
}

static aw__task *for_one(aw_runtime *rt, aw__room *r, size_t size) {
    r->rt = rt;
    r->size = (uint32_t)size;
    r->kind = AW__ROOM_NEW;
    aw__task *t = task_at(r, FIRST);
    t->room = FIRST;
    if (aw__is_owner(rt)) aw__room_adopt(t);
    return t;
}

aw__task *aw__room_in(aw_runtime *rt, void *storage) {
    return for_one(rt, storage, 0);
}

static void give_one(aw_runtime *rt, aw__room *r) {
    if (r->kind == AW__ROOM_ONE) list_remove(&rt->rooms.lists[0], r);
    if (r->size)
        aw__release(rt->allocator, r, r->size);
    else
        aw__store_release(&r->rt, (aw_runtime *)NULL); /* storage of the caller's */
}

/* ---- Slabs ------------------------------------------------------------------------------------ */

static AW__COLD slab *new_slab(aw_runtime *rt, size_t steps) {
    slab *s = aw__alloc(rt->allocator, AW__SLAB_BYTES);
    if (!s) return NULL;
    *s = (slab){.room = {.rt = rt, .size = (uint32_t)steps, .kind = AW__ROOM_SLAB},
                .capacity = (uint16_t)((SLAB - FIRST_OF_SLAB) / steps),
                .fresh = FIRST_OF_SLAB};
    list_add(&rt->rooms.lists[steps], &s->room);
    return s;
}

aw__task *aw__room_take(aw_runtime *rt, size_t frame_size) {
    size_t steps = TASK + (frame_size + STEP - 1) / STEP;
    if (!AW__SLABS || AW__UNLIKELY(steps >= AW__ROOM_SIZES) || rt->allocator != &aw__heap ||
        !aw__is_owner(rt)) {
        size_t size = sizeof(aw__room) + sizeof(aw__task) + frame_size;
        aw__room *r = aw__alloc(rt->allocator, size);
        return r ? for_one(rt, r, size) : NULL;
    }
    slab *s = (slab *)rt->rooms.lists[steps];
    if (AW__UNLIKELY(!s) && !(s = new_slab(rt, steps))) return NULL;
    aw__task *t = s->free;
    if (t) {
        s->free = t->next;
    } else {
        t = task_at(&s->room, s->fresh);
        t->room = s->fresh;
        s->fresh += (uint16_t)steps;
    }
    if (AW__UNLIKELY(++s->used == s->capacity)) {
        list_remove(&rt->rooms.lists[steps], &s->room);
        list_add(&rt->rooms.lists[0], &s->room);
    }
    return t;
}

static void give_slab(aw_runtime *rt, slab *s) {
    list_remove(&rt->rooms.lists[s->room.size], &s->room);
    aw__release(rt->allocator, s, AW__SLAB_BYTES);
}

void aw__room_give(aw__task *t) {
    aw__room *r = aw__task_room(t);
    aw_runtime *rt = r->rt;
    if (AW__UNLIKELY(r->kind != AW__ROOM_SLAB)) {
        give_one(rt, r);
        return;
    }
    slab *s = (slab *)r;
    t->next = s->free;
    s->free = t;
    if (AW__UNLIKELY(s->used-- == s->capacity)) {
        list_remove(&rt->rooms.lists[0], r);
        list_add(&rt->rooms.lists[r->size], r);
    }
    if (AW__UNLIKELY(s->used == 0) && (r->next || r->prev || rt->ended)) give_slab(rt, s);
}

void aw__rooms_release(aw_runtime *rt) {
    for (size_t steps = 1; steps < AW__ROOM_SIZES; steps++)
        for (aw__room *r = rt->rooms.lists[steps], *next; r; r = next) {
            next = r->next;
            if (((slab *)r)->used == 0) give_slab(rt, (slab *)r);
        }
}

/* ---- All of them ------------------------------------------------------------------------------ */

static unsigned first_place(const aw__room *r) {
    return r->kind == AW__ROOM_SLAB ? FIRST_OF_SLAB : FIRST;
}
static unsigned end_of(const aw__room *r) {
    return r->kind == AW__ROOM_SLAB ? ((const slab *)r)->fresh : FIRST + 1;
}

aw__task *aw__walk_next(aw__walk *w) {
    for (;;) {
        while (!w->room) {
            if (w->list == AW__ROOM_SIZES) return NULL;
            w->room = w->rt->rooms.lists[w->list++];
        }
        aw__room *r = w->room;
        if (!w->place) w->place = first_place(r);
        if (w->place >= end_of(r)) {
            w->room = r->next;
            w->place = 0;
            continue;
        }
        aw__task *t = task_at(r, w->place);
        w->place += r->kind == AW__ROOM_SLAB ? r->size : 1;
        if (!(t->flags & (AW__DONE | AW__FREED))) return t;
    }
}
