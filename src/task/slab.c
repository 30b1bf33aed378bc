/* SPDX-License-Identifier: MIT */
#include "task/slab.h"

#include "base/allocate.h"
#include "base/list.h"
#include "task/runtime_state.h"

typedef struct shared_slab {
    aw__slab slab;
    char padding[32]; /* the rest is in another cache line */
    aw__task *free;   /* free slots, linked through `next` */
    uint16_t used;    /* slots in use */
    uint16_t capacity;
    uint16_t fresh; /* offset of the first slot never used, in steps */
} shared_slab;

enum {
    STEP = AW__SLAB_STEP,
    TASK_STEPS = sizeof(aw__task) / STEP,
    FIRST_OF_SINGLE = sizeof(aw__slab) / STEP, /* offset of the task in a single slab */
    FIRST_OF_SHARED = (sizeof(shared_slab) + STEP - 1) / STEP,
    SHARED_STEPS = AW__SLAB_BYTES / STEP
};

_Static_assert(sizeof(aw__task) % STEP == 0 && sizeof(aw__slab) % STEP == 0, "frames are aligned");

static aw__task *task_at(aw__slab *s, unsigned offset) {
    return (aw__task *)(void *)((char *)s + (size_t)offset * STEP);
}

/* ---- Single slabs ---------------------------------------------------------------------------- */

void aw__slab_adopt(aw__task *t) {
    aw__slab *s = aw__task_slab(t);
    s->kind = AW__SLAB_SINGLE;
    aw__list_insert_head(&s->rt->slabs.lists[0], s);
}

static aw__task *init_single(aw_runtime *rt, aw__slab *s, size_t size) {
    s->rt = rt;
    s->size = (uint32_t)size;
    s->kind = AW__SLAB_NEW;
    aw__task *t = task_at(s, FIRST_OF_SINGLE);
    t->slab_offset = FIRST_OF_SINGLE;
    if (aw__is_owner(rt)) aw__slab_adopt(t);
    return t;
}

aw__task *aw__slab_in_storage(aw_runtime *rt, void *storage) {
    return init_single(rt, storage, 0);
}

static void free_single(aw_runtime *rt, aw__slab *s) {
    if (s->kind == AW__SLAB_SINGLE) aw__list_remove(&rt->slabs.lists[0], s);
    if (s->size)
        aw__free(rt->base.allocator, s, s->size);
    else
        aw__store_release(&s->rt, (aw_runtime *)NULL); /* the caller's storage */
}

/* ---- Shared slabs ---------------------------------------------------------------------------- */

static AW__COLD shared_slab *new_shared(aw_runtime *rt, size_t steps) {
    shared_slab *shared = aw__alloc(rt->base.allocator, AW__SLAB_BYTES);
    if (!shared) return NULL;
    *shared = (shared_slab){.slab = {.rt = rt, .size = (uint32_t)steps, .kind = AW__SLAB_SHARED},
                            .capacity = (uint16_t)((SHARED_STEPS - FIRST_OF_SHARED) / steps),
                            .fresh = FIRST_OF_SHARED};
    aw__list_insert_head(&rt->slabs.lists[steps], &shared->slab);
    return shared;
}

aw__task *aw__slab_alloc(aw_runtime *rt, size_t frame_size) {
    size_t steps = TASK_STEPS + (frame_size + STEP - 1) / STEP;
    if (!AW__USE_SLABS || AW__UNLIKELY(steps >= AW__SLAB_SIZES) ||
        rt->base.allocator != &aw__heap || !aw__is_owner(rt)) {
        size_t size = sizeof(aw__slab) + sizeof(aw__task) + frame_size;
        aw__slab *s = aw__alloc(rt->base.allocator, size);
        return s ? init_single(rt, s, size) : NULL;
    }
    shared_slab *shared = (shared_slab *)rt->slabs.lists[steps];
    if (AW__UNLIKELY(!shared) && !(shared = new_shared(rt, steps))) return NULL;
    aw__task *t = shared->free;
    if (t) {
        shared->free = t->next;
    } else {
        t = task_at(&shared->slab, shared->fresh);
        t->slab_offset = shared->fresh;
        shared->fresh += (uint16_t)steps;
    }
    if (AW__UNLIKELY(++shared->used == shared->capacity)) {
        aw__list_remove(&rt->slabs.lists[steps], &shared->slab);
        aw__list_insert_head(&rt->slabs.lists[0], &shared->slab);
    }
    return t;
}

static void free_shared(aw_runtime *rt, shared_slab *shared) {
    aw__list_remove(&rt->slabs.lists[shared->slab.size], &shared->slab);
    aw__free(rt->base.allocator, shared, AW__SLAB_BYTES);
}

void aw__slab_free(aw__task *t) {
    aw__slab *s = aw__task_slab(t);
    aw_runtime *rt = s->rt;
    if (AW__UNLIKELY(s->kind != AW__SLAB_SHARED)) {
        free_single(rt, s);
        return;
    }
    shared_slab *shared = (shared_slab *)s;
    t->next = shared->free;
    shared->free = t;
    if (AW__UNLIKELY(shared->used-- == shared->capacity)) {
        aw__list_remove(&rt->slabs.lists[0], s);
        aw__list_insert_head(&rt->slabs.lists[s->size], s);
    }
    if (AW__UNLIKELY(shared->used == 0) && (s->next || s->prev || rt->ended))
        free_shared(rt, shared);
}

void aw__slabs_free_empty(aw_runtime *rt) {
    for (size_t steps = 1; steps < AW__SLAB_SIZES; steps++)
        for (aw__slab *s = rt->slabs.lists[steps], *next; s; s = next) {
            next = s->next;
            if (((shared_slab *)s)->used == 0) free_shared(rt, (shared_slab *)s);
        }
}

/* ---- All tasks ------------------------------------------------------------------------------- */

static unsigned first_offset(const aw__slab *s) {
    return s->kind == AW__SLAB_SHARED ? FIRST_OF_SHARED : FIRST_OF_SINGLE;
}
static unsigned end_offset(const aw__slab *s) {
    return s->kind == AW__SLAB_SHARED ? ((const shared_slab *)s)->fresh : FIRST_OF_SINGLE + 1;
}

aw__task *aw__task_walk_next(aw__task_walk *w) {
    for (;;) {
        while (!w->slab) {
            if (w->list == AW__SLAB_SIZES) return NULL;
            w->slab = w->rt->slabs.lists[w->list++];
        }
        aw__slab *s = w->slab;
        if (!w->offset) w->offset = first_offset(s);
        if (w->offset >= end_offset(s)) {
            w->slab = s->next;
            w->offset = 0;
            continue;
        }
        aw__task *t = task_at(s, w->offset);
        w->offset += s->kind == AW__SLAB_SHARED ? s->size : 1;
        if (!(t->flags & (AW__DONE | AW__FREED))) return t;
    }
}
