/* SPDX-License-Identifier: MIT */
#include "runtime/wheel.h"

#include "core/lock.h"
#include "core/wake.h"

enum { MAX_MERGES = 64 };
#define NOT_SORTED UINT64_MAX

void aw__wheel_init(aw__wheel *w, aw_runtime *rt, void (*unpark)(aw__wheel *w), uint64_t now) {
    *w = (aw__wheel){.rt = rt,
                     .unpark = unpark,
                     .now = now,
                     .tick = now >> AW__TICK_BITS,
                     .sorted = NOT_SORTED,
                     .soonest = AW_FOREVER};
}

static void append(aw__wheel *w, aw_sleep *s, unsigned level, unsigned slot) {
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
        tick = w->tick; /* due, or about to be */
    else
        level = (63u - (unsigned)__builtin_clzll(tick ^ w->tick)) / AW__SLOT_BITS;
    append(w, s, level, tick >> (level * AW__SLOT_BITS) & (AW__SLOTS - 1));
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
    s->next = s->prev = NULL; /* a stale link must not look like a good one */
    s->slot = AW__UNLINKED;
    w->count--;
}

/* The lowest occupied level: what is in it comes before everything above. */
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

/* Let the wheel stand at the beginning of a slot of a higher level, and spread its timers below. */
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

/* Two lists that end in NULL, each in order, as one; of equal deadlines those of `a` come first. */
static aw_sleep *merge(aw_sleep *a, aw_sleep *b) {
    aw_sleep *first = NULL, **end = &first;
    while (a && b) {
        aw_sleep **least = b->when < a->when ? &b : &a;
        *end = *least;
        end = &(*end)->next;
        *least = *end;
    }
    *end = a ? a : b;
    return first;
}

/* Order a list that ends in NULL, equal ones as they are: runs of 1, 2, 4, ... wait for their twin. */
static aw_sleep *sort(aw_sleep *list) {
    aw_sleep *waiting[MAX_MERGES] = {NULL}, *all = NULL;
    for (aw_sleep *s = list, *rest; s; s = rest) {
        int i = 0;
        rest = s->next;
        s->next = NULL;
        for (; waiting[i]; i++) {
            s = merge(waiting[i], s);
            waiting[i] = NULL;
        }
        waiting[i] = s;
    }
    for (int i = 0; i < MAX_MERGES; i++)
        all = merge(waiting[i], all);
    return all;
}

/* The first of a slot of the lowest level. Only there the order within a tick matters, and only when
 * its turn has come: it is put in order then. Mostly it is; else its first part was sorted before. */
static aw_sleep *first_of(aw__wheel *w, unsigned slot, uint64_t tick) {
    aw_sleep *first = w->slots[0][slot], *s = first;
    if (w->sorted == tick) return first;
    w->sorted = tick;
    while (s->next != first && s->when <= s->next->when)
        s = s->next;
    if (s->next == first) return first;
    aw_sleep *rest = s->next;
    first->prev->next = s->next = NULL;
    s = first = merge(first, sort(rest));
    for (; s->next; s = s->next)
        s->next->prev = s;
    s->next = first;
    first->prev = s;
    return w->slots[0][slot] = first;
}

/* The next due timer, out of the wheel; NULL when there is none. */
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
        aw_sleep *s = first_of(w, slot, tick);
        if (s->when > now) { /* due later in this very tick */
            aw__store_relaxed(&w->soonest, s->when);
            return NULL;
        }
        aw__wheel_remove(w, s);
        return s;
    }
}

void aw__wheel_advance(aw__wheel *w, uint64_t now) {
    enum { BATCH = 64 }; /* others get the lock in between */
    for (bool more = true; more;) {
        aw_waker later = {NULL, NULL};
        more = false;
        aw__lock(&w->lock);
        w->asleep = 0;
        for (int n = 0; n < BATCH && !later.type; n++) {
            aw_sleep *s = next_due(w, now);
            if (!(more = s != NULL)) break;
            /* The future may end as soon as it sees FIRED, but not before it has had the lock: the
             * borrowed waker is good for this call. */
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
        aw_sleep *first = level ? w->slots[level][slot] : first_of(w, slot, tick), *s = first;
        next = level && !exact ? tick << AW__TICK_BITS : first->when;
        /* The wheel stays where it is: somebody may still insert what comes before this. */
        for (; exact && level && s->next != first; s = s->next)
            if (s->next->when < next) next = s->next->when;
    }
    /* By then a slot of a higher level may have to be spread, though nothing in it is due yet. */
    aw__store_relaxed(&w->soonest, next);
    w->asleep = next;
    aw__unlock(&w->lock);
    return next;
}
