/* SPDX-License-Identifier: MIT
 *
 * A thread in block_on of a multi-thread runtime. It polls its future and sleeps in between; the
 * workers run the tasks. Its own task provides only what a future expects of its task: a name, the
 * locals, the counts.
 *
 * `state` says what the thread does:
 *   1. POLLING: it polls. A wake adds WOKEN; a wake that finds exactly ASLEEP unparks the thread.
 *   2. After a pending poll the thread changes POLLING to ASLEEP (seq_cst), and then checks for
 *      quiescence: the last thread to fall asleep notices (quiescence.h). If it was WOKEN meanwhile
 *      it polls again.
 *   3. A watcher keeps the thread asleep, to inspect its future or to check for quiescence: it
 *      adds WATCHED to ASLEEP, and removes it when it is done. A wake in between only adds WOKEN;
 *      the watcher that removes WATCHED and finds WOKEN unparks the thread. Until then the thread
 *      sleeps again whenever it is unparked. There is one watcher at a time (quiescence_lock). It
 *      holds the runtime's lock where it changes the state, so that the thread cannot leave
 *      block_on.
 *   4. While its poll is in aw_block_in_place the thread adds IN_PLACE. It then holds the runtime,
 *      except while it waits there (hold.h). So it does not prevent quiescence by itself, and it
 *      counts one wait from outside, so that no deadlock is reported. */
#ifndef AW_SCHED_MULTI_POOL_BLOCK_ON_H
#define AW_SCHED_MULTI_POOL_BLOCK_ON_H

#include "os/park.h"
#include "sched/main_poll.h"
#include "task/runtime_state.h"

enum {
    AW__BLOCK_ON_POLLING = 0,
    AW__BLOCK_ON_ASLEEP = 1,
    AW__BLOCK_ON_WOKEN = 2,
    AW__BLOCK_ON_WATCHED = 4, /* together with ASLEEP */
    AW__BLOCK_ON_IN_PLACE = 8 /* together with POLLING */
};

typedef struct aw__block_on {
    aw__slab slab; /* of the task, which follows it */
    aw__task task;
    uint32_t state;        /* atomic: AW__BLOCK_ON_POLLING, or bits */
    uint32_t refs;         /* atomic: the thread's, and one per waker */
    uint32_t deadlocks;    /* atomic: how often it was found in a deadlock */
    bool reports_deadlock; /* this thread reports the deadlock */
    uint32_t park_word;    /* the thread sleeps on it */
    int64_t outside;       /* atomic: waits that something outside the runtime may end */
    aw__main_future main;
    struct aw__block_on *next, *prev; /* in the list, under the runtime's lock */
} aw__block_on;

_Static_assert(offsetof(aw__block_on, task) == sizeof(aw__slab), "the task follows its slab");

static inline aw__block_on *aw__block_on_of(const aw__task *t) {
    return (aw__block_on *)((uintptr_t)t - offsetof(aw__block_on, task));
}

/* Rule 3. False: the thread is not asleep. The seq_cst load is what quiescence.h relies on: a
 * failed compare-and-swap may have read an old value. */
static inline bool aw__block_on_watch(aw__block_on *b) {
    uint32_t asleep = AW__BLOCK_ON_ASLEEP;
    return aw__load_seq(&b->state) == AW__BLOCK_ON_ASLEEP &&
           aw__cas(&b->state, &asleep, (uint32_t)(AW__BLOCK_ON_ASLEEP | AW__BLOCK_ON_WATCHED));
}
/* Asleep and watched, and no wake is seen. */
static inline bool aw__block_on_is_quiescent(const aw__block_on *b) {
    return aw__load_relaxed(&b->state) == (AW__BLOCK_ON_ASLEEP | AW__BLOCK_ON_WATCHED);
}
/* Rule 4. Relaxed: the count of holds orders it, which the caller loads with acquire. */
static inline bool aw__block_on_is_in_place(const aw__block_on *b) {
    return aw__load_relaxed(&b->state) & AW__BLOCK_ON_IN_PLACE;
}
/* Changes nothing if the thread was not watched. */
static inline void aw__block_on_unwatch(aw__block_on *b) {
    const uint32_t both = AW__BLOCK_ON_WATCHED | AW__BLOCK_ON_WOKEN;
    if ((aw__fetch_and(&b->state, ~(uint32_t)AW__BLOCK_ON_WATCHED) & both) == both)
        aw__os_unpark(&b->park_word);
}
/* Calls f for each task of a thread that is asleep, and for that of the calling thread. */
void aw__block_on_each_asleep(struct aw__pool *p, void (*f)(const aw__task_view *v, void *data),
                              void *data);

/* Any thread. */
void aw__block_on_wake(aw__block_on *b);

int aw__pool_block_on(aw_runtime *rt, aw_future *f);

/* Rule 4. Called by the thread, before and after a call in place. */
void aw__block_on_leave(aw__block_on *b);
void aw__block_on_return(aw__block_on *b);

#endif
