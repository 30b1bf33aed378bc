/* SPDX-License-Identifier: MIT */
#include "workers/shelf.h"

#include "core/alloc.h"
#include "workers/pool.h"

enum { STEP = AW__ROOM_STEP };

/* The worker that this thread is, if its shelf may have room of this size. */
static aw__worker *keeper(const aw__pool *p, size_t steps) {
    aw__worker *w = aw__thread.worker;
    if (!AW__SLABS || AW__UNLIKELY(steps >= AW__ROOM_SIZES) || !w || w->pool != p) return NULL;
    return AW__LIKELY(p->rt->allocator == &aw__heap) ? w : NULL;
}

/* ---- The depot -------------------------------------------------------------------------------- */

static aw__task *take_pile(aw__depot *d, size_t steps) {
    if (!aw__load_relaxed(&d->piles[steps])) return NULL;
    aw__lock(&d->lock);
    aw__task *top = d->piles[steps];
    if (top) {
        aw__store_relaxed(&d->piles[steps], top->inbox_next);
        d->counts[steps]--;
    }
    aw__unlock(&d->lock);
    return top;
}

static bool give_pile(aw__depot *d, size_t steps, aw__task *top) {
    aw__lock(&d->lock);
    bool fits = d->counts[steps] < AW__DEPOT_PILES;
    if (fits) {
        top->inbox_next = d->piles[steps];
        aw__store_relaxed(&d->piles[steps], top);
        d->counts[steps]++;
    }
    aw__unlock(&d->lock);
    return fits;
}

static void free_pile(aw__task *t) {
    for (aw__task *next; t; t = next) {
        next = t->next;
        aw__room_give(t);
    }
}

/* ---- The shelf -------------------------------------------------------------------------------- */

static AW__COLD bool refill(aw__worker *w, size_t steps) {
    aw__pile *first = &w->shelf.first[steps], *second = &w->shelf.second[steps];
    if (second->count) {
        *first = *second;
        *second = (aw__pile){0};
    } else if ((first->top = take_pile(&w->pool->depot, steps))) {
        first->count = AW__PILE;
    }
    return first->top;
}

static AW__COLD void make_space(aw__worker *w, size_t steps) {
    aw__pile *first = &w->shelf.first[steps], *second = &w->shelf.second[steps];
    if (second->count && !give_pile(&w->pool->depot, steps, second->top)) free_pile(second->top);
    *second = *first;
    *first = (aw__pile){0};
    w->shelf.more = true;
}

aw__task *aw__shelf_take(aw__pool *p, size_t frame_size) {
    size_t steps = (sizeof(aw__task) + frame_size + STEP - 1) / STEP;
    aw__worker *w = keeper(p, steps);
    if (w) {
        aw__pile *pile = &w->shelf.first[steps];
        if (AW__LIKELY(pile->top) || refill(w, steps)) {
            aw__task *t = pile->top;
            pile->top = t->next;
            pile->count--;
            return t;
        }
    }
    /* Whole steps: whoever ends it may keep it. */
    return aw__room_take(p->rt, AW__SLABS ? steps * STEP - sizeof(aw__task) : frame_size);
}

void aw__shelf_give(aw__pool *p, aw__task *t) {
    const aw__room *r = aw__task_room(t);
    size_t steps = (r->size - sizeof *r) / STEP; /* that of the caller's storage is beyond all */
    aw__worker *w = keeper(p, steps);
    if (!w) {
        aw__room_give(t);
        return;
    }
    aw__pile *pile = &w->shelf.first[steps];
    if (AW__UNLIKELY(pile->count == AW__PILE)) make_space(w, steps);
    t->next = pile->top;
    pile->top = t;
    pile->count++;
}

static void clear(aw__pile *piles) {
    for (size_t steps = 0; steps < AW__ROOM_SIZES; steps++) {
        free_pile(piles[steps].top);
        piles[steps] = (aw__pile){0};
    }
}

static void clear_depot(aw__depot *d) {
    for (size_t steps = 0; steps < AW__ROOM_SIZES; steps++)
        for (aw__task *top; (top = take_pile(d, steps));)
            free_pile(top);
}

void aw__shelf_idle(aw__worker *w, bool last) {
    if (w->shelf.more) clear(w->shelf.second);
    w->shelf.more = false;
    if (last) clear_depot(&w->pool->depot);
}

void aw__shelf_clear(aw__worker *w) {
    clear(w->shelf.first);
    clear(w->shelf.second);
    clear_depot(&w->pool->depot);
}
