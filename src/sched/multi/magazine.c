/* SPDX-License-Identifier: MIT
 *
 * The magazines of the workers, and the depot. Any thread; see magazine.h. */
#include "sched/multi/magazine.h"

#include "base/allocate.h"
#include "sched/multi/pool.h"

/* The worker of the calling thread, if it caches memory of this size. NULL: allocate and free. */
static aw__worker *caching_worker(const aw__pool *p, size_t steps) {
    aw__worker *w = aw__context.worker;
    if (!AW__USE_SLABS || AW__UNLIKELY(steps >= AW__SLAB_SIZES) || !w || w->pool != p) return NULL;
    return AW__LIKELY(p->rt->base.allocator == &aw__heap) ? w : NULL;
}

/* ---- The depot ------------------------------------------------------------------------------- */

static aw__task *take_from_depot(aw__depot *d, size_t steps) {
    if (!aw__load_relaxed(&d->magazines[steps])) return NULL;
    aw__lock(&d->lock);
    aw__task *top = d->magazines[steps];
    if (top) {
        aw__store_relaxed(&d->magazines[steps], top->inbox_next);
        d->counts[steps]--;
    }
    aw__unlock(&d->lock);
    return top;
}

static bool put_in_depot(aw__depot *d, size_t steps, aw__task *top) {
    aw__lock(&d->lock);
    bool fits = d->counts[steps] < AW__DEPOT_MAGAZINES;
    if (fits) {
        top->inbox_next = d->magazines[steps];
        aw__store_relaxed(&d->magazines[steps], top);
        d->counts[steps]++;
    }
    aw__unlock(&d->lock);
    return fits;
}

static void free_magazine(aw__task *t) {
    for (aw__task *next; t; t = next) {
        next = t->next;
        aw__slab_free(t);
    }
}

/* ---- The magazines --------------------------------------------------------------------------- */

static AW__COLD bool refill(aw__worker *w, size_t steps) {
    aw__magazine *loaded = &w->magazines.loaded[steps], *previous = &w->magazines.previous[steps];
    if (previous->count) {
        *loaded = *previous;
        *previous = (aw__magazine){0};
    } else if ((loaded->top = take_from_depot(&w->pool->depot, steps))) {
        loaded->count = AW__MAGAZINE_SIZE;
    }
    return loaded->top;
}

static AW__COLD void make_space(aw__worker *w, size_t steps) {
    aw__magazine *loaded = &w->magazines.loaded[steps], *previous = &w->magazines.previous[steps];
    if (previous->count && !put_in_depot(&w->pool->depot, steps, previous->top))
        free_magazine(previous->top);
    *previous = *loaded;
    *loaded = (aw__magazine){0};
    w->magazines.trim_due = true;
}

aw__task *aw__magazine_alloc(aw__pool *p, size_t frame_size) {
    size_t steps = (sizeof(aw__task) + frame_size + AW__SLAB_STEP - 1) / AW__SLAB_STEP;
    aw__worker *w = caching_worker(p, steps);
    if (w) {
        aw__magazine *magazine = &w->magazines.loaded[steps];
        if (AW__LIKELY(magazine->top) || refill(w, steps)) {
            aw__task *t = magazine->top;
            magazine->top = t->next;
            magazine->count--;
            return t;
        }
    }
    /* Round up to whole steps, so that the worker that ends the task can cache the memory. */
    return aw__slab_alloc(p->rt,
                          AW__USE_SLABS ? steps * AW__SLAB_STEP - sizeof(aw__task) : frame_size);
}

void aw__magazine_free(aw__pool *p, aw__task *t) {
    const aw__slab *r = aw__task_slab(t);
    /* Storage of the caller has size 0, so `steps` exceeds every cached size. */
    size_t steps = (r->size - sizeof *r) / AW__SLAB_STEP;
    aw__worker *w = caching_worker(p, steps);
    if (!w) {
        aw__slab_free(t);
        return;
    }
    aw__magazine *magazine = &w->magazines.loaded[steps];
    if (AW__UNLIKELY(magazine->count == AW__MAGAZINE_SIZE)) make_space(w, steps);
    t->next = magazine->top;
    magazine->top = t;
    magazine->count++;
}

static void clear_magazines(aw__magazine *magazines) {
    for (size_t steps = 0; steps < AW__SLAB_SIZES; steps++) {
        free_magazine(magazines[steps].top);
        magazines[steps] = (aw__magazine){0};
    }
}

static void clear_depot(aw__depot *d) {
    for (size_t steps = 0; steps < AW__SLAB_SIZES; steps++)
        for (aw__task *top; (top = take_from_depot(d, steps));)
            free_magazine(top);
}

void aw__magazine_idle(aw__worker *w, bool last) {
    if (w->magazines.trim_due) clear_magazines(w->magazines.previous);
    w->magazines.trim_due = false;
    if (last) clear_depot(&w->pool->depot);
}

void aw__magazine_clear(aw__worker *w) {
    clear_magazines(w->magazines.loaded);
    clear_magazines(w->magazines.previous);
    clear_depot(&w->pool->depot);
}
