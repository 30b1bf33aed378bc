/* SPDX-License-Identifier: MIT */
#include "time/wheel.h"

#include "future/wake.h"
#include "os/lock.h"

enum { MAX_RUNS = 64 };
#define NOT_SORTED UINT64_MAX

void aw__wheel_init(aw__wheel *w, aw_runtime *rt, void (*unpark)(aw__wheel *w), uint64_t now) {
    *w = (aw__wheel){.rt = rt,
                     .unpark = unpark,
                     .now = now,
                     .tick = now >> AW__TICK_BITS,
                     .sorted = NOT_SORTED,
                     .soonest = AW_FOREVER};
}

static void slot_append(aw__wheel *w, aw_sleep *s, unsigned level, unsigned slot) {
    aw_sleep **head = &w->slots[level][slot];
    if (!*head) {
        *head = s->next = s->prev = s;
        w->occupied[level] |= 1ULL << slot;
    } else {
        s->next = *head;
        s->prev = (*head)->prev;
        s->prev->next = s;
        (*head)->prev = s;
    }
    s->slot = level << AW__SLOT_BITS | slot;
}

void aw__wheel_insert(aw__wheel *w, aw_sleep *s) {
    uint64_t tick = s->when >> AW__TICK_BITS;
    unsigned level = 0;
    if (tick <= w->tick)
        tick = w->tick; /* due, or due within the current tick */
    else
        level = (63u - (unsigned)__builtin_clzll(tick ^ w->tick)) / AW__SLOT_BITS;
    slot_append(w, s, level, tick >> (level * AW__SLOT_BITS) & (AW__SLOTS - 1));
    if (tick == w->sorted && s->when < s->prev->when) w->sorted = NOT_SORTED;
    w->count++;
    if (s->when < w->soonest) aw__store_relaxed(&w->soonest, s->when);
}

void aw__wheel_remove(aw__wheel *w, aw_sleep *s) {
    unsigned level = s->slot >> AW__SLOT_BITS, slot = s->slot & (AW__SLOTS - 1);
    aw_sleep **head = &w->slots[level][slot];
    if (s->next == s) {
        *head = NULL;
        w->occupied[level] &= ~(1ULL << slot);
    } else {
        s->prev->next = s->next;
        s->next->prev = s->prev;
        if (*head == s) *head = s->next;
    }
    s->next = s->prev = NULL; /* a stale link must not look valid */
    s->slot = AW__UNLINKED;
    w->count--;
}

/* The lowest occupied level: its timers come before those of all higher levels. */
static int lowest_level(const aw__wheel *w) {
    for (int level = 0; level < AW__LEVELS; level++)
        if (w->occupied[level]) return level;
    return -1;
}

/* The tick at which the first occupied slot of a level begins. */
static uint64_t first_tick(const aw__wheel *w, int level, unsigned *slot) {
    *slot = (unsigned)__builtin_ctzll(w->occupied[level]);
    int shift = level * AW__SLOT_BITS, above = shift + AW__SLOT_BITS;
    uint64_t base = above < 64 ? w->tick >> above << above : 0;
    return base | (uint64_t)*slot << shift;
}

aw_sleep *aw__wheel_take(aw__wheel *w) {
    int level = lowest_level(w);
    if (level < 0) return NULL;
    aw_sleep *s = w->slots[level][__builtin_ctzll(w->occupied[level])];
    aw__wheel_remove(w, s);
    return s;
}

/* Advance the wheel to the start of a slot of a higher level, and move its timers to lower levels.
 * */
static void cascade(aw__wheel *w, int level, unsigned slot, uint64_t tick) {
    aw_sleep *first = w->slots[level][slot], *s = first;
    w->slots[level][slot] = NULL;
    w->occupied[level] &= ~(1ULL << slot);
    w->tick = tick;
    do {
        aw_sleep *next = s->next;
        w->count--;
        aw__wheel_insert(w, s);
        s = next;
    } while (s != first);
}

/* Merge two sorted lists that end in NULL. Among equal deadlines those of `a` come first. */
static aw_sleep *merge_sorted(aw_sleep *a, aw_sleep *b) {
    aw_sleep *first = NULL, **end = &first;
    while (a && b) {
        aw_sleep **earlier = b->when < a->when ? &b : &a;
        *end = *earlier;
        end = &(*end)->next;
        *earlier = *end;
    }
    *end = a ? a : b;
    return first;
}

/* Stable merge sort of a list that ends in NULL. runs[i] is empty or a sorted run of 2^i timers. */
static aw_sleep *sort_timers(aw_sleep *list) {
    aw_sleep *runs[MAX_RUNS] = {NULL}, *all = NULL;
    for (aw_sleep *s = list, *next; s; s = next) {
        int i = 0;
        next = s->next;
        s->next = NULL;
        for (; runs[i]; i++) {
            s = merge_sorted(runs[i], s);
            runs[i] = NULL;
        }
        runs[i] = s;
    }
    for (int i = 0; i < MAX_RUNS; i++)
        all = merge_sorted(runs[i], all);
    return all;
}

/* The first timer of a slot of the lowest level. The order within a tick matters only when that
 * tick is reached, so the slot is sorted here. Usually it is in order already; if not, its first
 * part is, and only the rest is sorted. */
static aw_sleep *slot_first(aw__wheel *w, unsigned slot, uint64_t tick) {
    aw_sleep *first = w->slots[0][slot], *s = first;
    if (w->sorted == tick) return first;
    w->sorted = tick;
    while (s->next != first && s->when <= s->next->when)
        s = s->next;
    if (s->next == first) return first;
    aw_sleep *unsorted = s->next;
    first->prev->next = s->next = NULL;
    s = first = merge_sorted(first, sort_timers(unsorted));
    for (; s->next; s = s->next)
        s->next->prev = s;
    s->next = first;
    first->prev = s;
    return w->slots[0][slot] = first;
}

/* Removes the next timer that is due; NULL: none is. */
static aw_sleep *next_due(aw__wheel *w, uint64_t now) {
    uint64_t target = now >> AW__TICK_BITS;
    for (;;) {
        int level = lowest_level(w);
        unsigned slot = 0;
        uint64_t tick = level < 0 ? UINT64_MAX : first_tick(w, level, &slot);
        if (level < 0 || tick > target) {
            if (w->tick < target) w->tick = target;
            aw__store_relaxed(&w->soonest, level < 0 ? AW_FOREVER : tick << AW__TICK_BITS);
            return NULL;
        }
        if (level > 0) {
            cascade(w, level, slot, tick);
            continue;
        }
        if (w->tick < tick) w->tick = tick;
        aw_sleep *s = slot_first(w, slot, tick);
        if (s->when > now) { /* due later in this tick */
            aw__store_relaxed(&w->soonest, s->when);
            return NULL;
        }
        aw__wheel_remove(w, s);
        return s;
    }
}

void aw__wheel_advance(aw__wheel *w, uint64_t now) {
    enum { FIRE_BATCH = 64 }; /* then release the lock, for other threads */
    for (bool more = true; more;) {
        aw_waker later = {NULL, NULL};
        more = false;
        aw__lock(&w->lock);
        w->asleep = 0;
        for (int n = 0; n < FIRE_BATCH && !later.type; n++) {
            aw_sleep *s = next_due(w, now);
            if (!(more = s != NULL)) break;
            /* A future that sees FIRED takes the lock before it ends: the borrowed waker is valid
             * during this call. */
            aw__store_release(&s->future.state, (uint32_t)AW__SLEEP_FIRED);
            aw__wake_or_clone(&s->waker, &later);
        }
        aw__unlock(&w->lock);
        if (later.type) aw_waker_wake(later);
    }
}

uint64_t aw__wheel_next(aw__wheel *w, bool exact) {
    uint64_t next = AW_FOREVER;
    aw__lock(&w->lock);
    unsigned slot;
    int level = lowest_level(w);
    if (level >= 0) {
        uint64_t tick = first_tick(w, level, &slot);
        aw_sleep *first = level ? w->slots[level][slot] : slot_first(w, slot, tick), *s = first;
        next = level && !exact ? tick << AW__TICK_BITS : first->when;
        /* Search, do not cascade: an earlier timer may still be inserted. */
        for (; exact && level && s->next != first; s = s->next)
            if (s->next->when < next) next = s->next->when;
    }
    /* A slot of a higher level may have to be cascaded by then, even if none of its timers is due.
     * */
    aw__store_relaxed(&w->soonest, next);
    w->asleep = next;
    aw__unlock(&w->lock);
    return next;
}
