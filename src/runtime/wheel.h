/* SPDX-License-Identifier: MIT
 *
 * A hierarchical timer wheel. A tick is 2^14 ns (16 us); a level has 64 slots, each slot of a level
 * covers 64 of the level below. A timer is in the level of the highest bit in which its tick differs
 * from the wheel's, so inserting, moving and removing are O(1), and it moves down at most once per
 * level. A bitmap per level says which slots are occupied: empty time is skipped, never walked.
 *
 * Deadlines stay exact: ticks only sort coarsely. A slot of the lowest level may hold timers that are
 * due and timers that are not yet; it is put in the order of their nanoseconds when its turn comes.
 *
 * The entries are the aw_sleep futures themselves. A short lock guards everything here, including the
 * waker in each linked entry; the owner holds it almost always without company. */
#ifndef AW_RUNTIME_WHEEL_H
#define AW_RUNTIME_WHEEL_H

#include <awake/time.h>

enum {
    AW__TICK_BITS = 14,
    AW__SLOT_BITS = 6,
    AW__SLOTS = 1 << AW__SLOT_BITS,
    AW__LEVELS = 9, /* 14 + 9 * 6 bits: all of time */
    AW__UNLINKED = UINT16_MAX
};

enum {                     /* state of a sleep */
       AW__SLEEP_FRESH,    /* `when` is a duration */
       AW__SLEEP_ABSOLUTE, /* `when` is a deadline; aw_sleep_until begins with this */
       AW__SLEEP_LINKED,   /* in the wheel */
       AW__SLEEP_FIRED     /* out of it, its waker was woken; stored with release */
};

typedef struct aw__wheel {
    uint32_t lock;
    aw_runtime *rt;
    void (*unpark)(struct aw__wheel *w); /* wakes its owner; any thread */
    uint64_t now;     /* owner: as of its last look at the clock, never ahead of it */
    bool looked;      /* owner: that was in this turn of its loop */
    bool shared;      /* others fire it too, when its owner is stuck */
    uint64_t tick;    /* of the last advance */
    uint64_t sorted;  /* the slot of this tick is in the order of its deadlines */
    uint64_t soonest; /* nothing is to be done before; the owner peeks without the lock */
    uint64_t asleep;  /* the owner sleeps until then; 0: it is awake */
    size_t count;
    uint64_t occupied[AW__LEVELS];
    aw_sleep *slots[AW__LEVELS][AW__SLOTS]; /* circular lists, first inserted first */
} aw__wheel;

void aw__wheel_init(aw__wheel *w, aw_runtime *rt, void (*unpark)(aw__wheel *w), uint64_t now);

/* Under the lock. */
void aw__wheel_insert(aw__wheel *w, aw_sleep *s);
void aw__wheel_remove(aw__wheel *w, aw_sleep *s);

/* Fire what is due. By the owner, or when it is stuck by others; without the lock. */
void aw__wheel_advance(aw__wheel *w, uint64_t now);

/* When to look again: at the earliest deadline, or before it when that one is far off; AW_FOREVER
 * when there is none. `exact` finds the deadline itself, for a clock that will jump there. By the
 * owner, without the lock. Until it is awake again (asleep = 0) an earlier insertion unparks it. */
uint64_t aw__wheel_next(aw__wheel *w, bool exact);

#endif
