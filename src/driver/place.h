/* SPDX-License-Identifier: MIT
 *
 * Where a thread of a runtime sleeps: on a futex, or, from the first descriptor on that waits with it, in its driver.
 * The word says how (os/park.h), so who unparks it knows whom to tell. */
#ifndef AW_DRIVER_PLACE_H
#define AW_DRIVER_PLACE_H

#include "core/atomic.h"
#include "driver/driver.h"
#include "os/park.h"
#include "os/thread.h"

typedef struct aw__place {
    uint32_t word;
    aw__driver *driver; /* atomic; NULL until it is needed, and then always the same */
    uint64_t owner;     /* atomic: the number of the thread that sleeps there, or 0 */
    /* Atomic; NULL until it is needed, and then always the same: for threads that may not enter the other. What comes
     * back there ends the sleep, too, and is told by who sleeps, or looks for him. */
    aw__driver *beside;
} aw__place;

/* By that thread: when it begins, and when another one may. */
static inline void aw__place_begin(aw__place *p) {
    aw__store_relaxed(&p->owner, aw__os_thread_number());
}
void aw__place_leave(aw__place *p);

/* What came while it slept, to be told when it is awake in every respect. */
typedef struct aw__events {
    int count;
    aw__event events[AW__EVENTS];
} aw__events;

bool aw__place_park_in_driver(aw__place *p, uint64_t deadline, aw__events *e);

/* As aw__os_park. */
static inline bool aw__place_park(aw__place *p, uint64_t deadline, aw__events *e) {
    e->count = 0;
    if (!aw__load_acquire(&p->driver)) return aw__os_park(&p->word, deadline);
    return aw__place_park_in_driver(p, deadline, e);
}

static inline void aw__place_unpark(aw__place *p) {
    if (!aw__os_unpark(&p->word)) return;
    aw__driver *d = aw__load_acquire(&p->driver);
    d->type->interrupt(d);
}

static inline void aw__place_turn_beside(aw__place *p) {
    enum { MOST_TURNS = 16 };
    aw__driver *d = aw__load_acquire(&p->beside);
    if (AW__LIKELY(!d)) return;
    for (int i = 0; i < MOST_TURNS; i++)
        if (aw__driver_turn(d) == 0) return;
    p->driver->type->interrupt(p->driver); /* of what is left nobody would be told again */
}

static inline void aw__place_tell(aw__place *p, const aw__events *e) {
    if (e->count) aw__driver_tell(p->driver, e->events, e->count);
    aw__place_turn_beside(p);
}

/* Look, without sleeping. */
static inline void aw__place_turn(aw__place *p) {
    aw__driver *d = aw__load_acquire(&p->driver); /* another thread may have made it just now */
    if (d) aw__driver_turn(d);
    aw__place_turn_beside(p);
}

/* At the end of the runtime; and when nobody can unpark it any more. */
void aw__place_close(aw__place *p);
void aw__place_free(aw__place *p);

#endif
