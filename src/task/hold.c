/* SPDX-License-Identifier: MIT
 *
 * The parker of a thread that holds a runtime. `state` tells a wake whether the hold is paused:
 *
 *   1. The thread marks its hold as paused, changes AWAKE to ASLEEP, and decrements the count. If
 *      it finds WOKEN it does not sleep, and takes the mark back.
 *   2. A wake changes AWAKE to WOKEN. Or it changes ASLEEP to WAKING, resumes the hold, and stores
 *      WOKEN. Then it unparks the thread.
 *   3. The thread, unparked or timed out, changes ASLEEP to AWAKE and resumes the hold itself; or
 *      it waits for WOKEN. So no wake touches the hold after the sleep, when it may be gone with
 *      the thread's call.
 *
 * A stale token ends a later sleep too early; the caller checks its condition again anyway. */
#include "task/hold.h"

#include <awake/waker.h>

#include "base/allocate.h"
#include "os/park.h"

enum { AWAKE, ASLEEP, WAKING, WOKEN };

struct aw__hold_parker {
    aw_counted counted;
    uint32_t word;
    uint32_t state; /* atomic */
    aw_runtime *rt; /* NULL: holds no runtime */
    uint32_t *hold;
    const aw_allocator *allocator;
};

static void hold_parker_resume(aw__hold_parker *p) {
    uint32_t state = aw__load_relaxed(&p->state);
    while (state == AWAKE || state == ASLEEP) {
        uint32_t next = state == AWAKE ? WOKEN : WAKING;
        if (!aw__cas(&p->state, &state, next)) continue;
        if (next == WOKEN) return;
        aw__hold_resume(p->rt, p->hold);
        aw__store_release(&p->state, (uint32_t)WOKEN);
        return;
    }
}

void aw__hold_unpark(aw__hold_parker *p) {
    if (p->rt) hold_parker_resume(p);
    aw__os_unpark(&p->word);
}

static void hold_parker_wake(aw_counted *c) {
    aw__hold_unpark((aw__hold_parker *)c);
}

static void hold_parker_release(aw_counted *c) {
    aw__free(((aw__hold_parker *)c)->allocator, c, sizeof(aw__hold_parker));
}

aw__hold_parker *aw__hold_parker_new(const aw_runtime *rt) {
    const aw_allocator *a = aw_get_allocator();
    aw__hold_parker *p = aw__alloc(a, sizeof *p);
    if (!p) return NULL;
    *p = (aw__hold_parker){.allocator = a, .state = AWAKE};
    aw_counted_init(&p->counted, hold_parker_wake, hold_parker_release);
    if (!rt || aw__context.held != rt) return p;
    p->rt = aw__context.held;
    p->hold = aw__context.hold;
    return p;
}

void aw__hold_parker_free(aw__hold_parker *p) {
    aw_counted_drop(&p->counted);
}

aw_waker aw__hold_parker_waker(aw__hold_parker *p) {
    return aw_counted_waker(&p->counted);
}

bool aw__hold_park(aw__hold_parker *p, uint64_t deadline) {
    uint32_t awake = AWAKE, asleep = ASLEEP;
    if (!p->rt) return aw__os_park(&p->word, deadline);
    bool paused = aw__hold_mark_paused(p->hold);
    if (aw__cas(&p->state, &awake, (uint32_t)ASLEEP)) {
        if (paused) aw__rt_unhold(p->rt, &p->rt->holds);
        bool in_time = aw__os_park(&p->word, deadline);
        if (aw__cas(&p->state, &asleep, (uint32_t)AWAKE)) {
            aw__hold_resume(p->rt, p->hold);
            return in_time;
        }
        for (int tries = 0; aw__load_acquire(&p->state) != WOKEN;)
            aw__os_wait(&tries);
    } else if (paused) {
        /* Still counted. If the task has given up the call meanwhile, it has not decremented. */
        uint32_t mark = AW__HOLD_PAUSED;
        if (!aw__cas(p->hold, &mark, (uint32_t)AW__HOLDS)) aw__rt_unhold(p->rt, &p->rt->holds);
    }
    /* The caller's next poll answers all wakes so far. */
    aw__store_release(&p->state, (uint32_t)AWAKE);
    return true;
}

void aw_runtime_hold(aw_runtime *rt) {
    aw__fetch_add(&rt->holds, 1u);
}

void aw_runtime_unhold(aw_runtime *rt) {
    aw__rt_unhold(rt, &rt->holds);
}
