/* SPDX-License-Identifier: MIT
 *
 * A hierarchical timer wheel. A tick is 2^14 ns (16 us). A level has 64 slots; one slot covers as
 * much time as the whole level below. A timer is in the level of the highest bit in which its tick
 * differs from the wheel's. So insert and remove are O(1), and a timer moves down at most once per
 * level. A bitmap per level marks the occupied slots: empty time is skipped, never walked.
 *
 * Deadlines stay exact: ticks only sort coarsely. A slot of the lowest level may hold timers that
 * are due and timers that are not. It is sorted by deadline when its tick is reached.
 *
 * The entries are the aw_sleep futures themselves. A short lock guards everything here, including
 * the waker in each linked entry. It is rarely contended: most of the time only the owner takes it.
 *
 * The end of the runtime (aw__rt_end_sleeps), and sleeps of threads outside the runtime:
 *
 *   1. `users` counts the sleeps that point to the wheel. A sleep enters when it is linked, and
 *      leaves when it ends or is cancelled, fired or not. Both happen under the lock, with one
 *      exception: a fired sleep leaves without the lock on the owner's thread, if no other thread
 *      fires the wheel. The owner counts these in `left_by_owner`, which only the owner touches.
 *   2. The thread that ends the runtime sets `closed` under the lock. After that nothing is linked:
 *      a first poll that finds `closed` ends with -ESHUTDOWN. If `users` minus `left_by_owner` is
 *      not zero then, the ending thread takes one reference on the runtime's memory for all of
 *      them. The user that leaves last drops it, after its unlock. So every sleep may take the lock
 *      until it has left, however late.
 *   3. The ending thread removes each linked sleep, stores ENDED and wakes it, as if it had fired.
 *      The sleep sees ENDED at its next poll or cancel, which takes the lock to leave. So it waits
 *      until the ending thread no longer uses the borrowed waker.
 *   4. `unparking` counts threads between the unlock of an insertion and their unpark of the owner.
 *      The ending thread waits until it is zero: the unpark function may be the user's (aw_seam),
 *      and is valid only until the end. */
#ifndef AW_TIME_WHEEL_H
#define AW_TIME_WHEEL_H

#include <awake/time.h>

#include "context/context.h"

enum {
    AW__TICK_BITS = 14,
    AW__SLOT_BITS = 6,
    AW__SLOTS = 1 << AW__SLOT_BITS,
    AW__LEVELS = 9, /* 14 + 9 * 6 >= 64 bits: covers every deadline */
    AW__UNLINKED = UINT16_MAX
};

enum {                     /* state of a sleep */
       AW__SLEEP_FRESH,    /* `when` is a duration */
       AW__SLEEP_ABSOLUTE, /* `when` is a deadline; the initial state of aw_sleep_until */
       AW__SLEEP_LINKED,   /* in the wheel */
       AW__SLEEP_FIRED,    /* removed and woken; stored with release */
       AW__SLEEP_ENDED     /* the same, because the runtime has ended */
};

typedef struct aw__wheel {
    uint32_t lock;
    aw_runtime *rt;
    void (*unpark)(struct aw__wheel *w); /* unparks the owner; any thread */
    uint64_t now;     /* owner: the time when last read, never ahead of the clock */
    bool looked;      /* owner: `now` was read in this iteration of the loop */
    bool shared;      /* other threads fire it too, when the owner is stuck */
    uint64_t tick;    /* of the last advance */
    uint64_t sorted;  /* the slot of this tick is in order of deadlines */
    uint64_t soonest; /* no work is due before; the owner reads it without the lock */
    uint64_t asleep;  /* the owner sleeps until then; 0: awake */
    size_t count;
    size_t users;         /* rule 1 */
    size_t left_by_owner; /* owner: users that have left without the lock */
    uint32_t unparking;   /* atomic: rule 4 */
    bool closed;          /* rule 2 */
    uint64_t closed_at;   /* the time of that, if there were users */
    uint64_t occupied[AW__LEVELS];
    aw_sleep *slots[AW__LEVELS][AW__SLOTS]; /* oldest first; circular: one pointer each */
} aw__wheel;

void aw__wheel_init(aw__wheel *w, aw_runtime *rt, void (*unpark)(aw__wheel *w), uint64_t now);

/* Under the lock. */
void aw__wheel_insert(aw__wheel *w, aw_sleep *s);
void aw__wheel_remove(aw__wheel *w, aw_sleep *s);

/* Removes any entry; NULL: the wheel is empty. Under the lock. */
aw_sleep *aw__wheel_take(aw__wheel *w);

/* Fires the timers that are due. Called without the lock, by the owner or, when the owner is stuck,
 * by another thread. */
void aw__wheel_advance(aw__wheel *w, uint64_t now);

/* When to advance next: at the earliest deadline, or before it if that is far off; AW_FOREVER:
 * there are no timers. `exact` returns the deadline itself, for a paused clock that jumps there.
 * Called without the lock, by the owner or while it sleeps. Until the owner is awake again (asleep
 * = 0), the insertion of an earlier timer unparks it. */
uint64_t aw__wheel_next(aw__wheel *w, bool exact);

/* The wheel for timers that the calling thread sets. */
static inline aw__wheel *aw__rt_wheel(aw_runtime *rt) {
    aw__wheel *w = aw__context.wheel;
    return w && w->rt == rt ? w : aw__base(rt)->wheels;
}

/* At the end of the runtime, end all its sleeps with -ESHUTDOWN, and all that start later. Returns
 * the number of sleeps ended; 0 if called again. */
size_t aw__rt_end_sleeps(aw_runtime *rt);

#endif
