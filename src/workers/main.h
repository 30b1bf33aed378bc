/* SPDX-License-Identifier: MIT
 *
 * A thread in block_on of a runtime with workers. It polls its own future and sleeps in between; the workers
 * run the tasks. Its task is only there for what every future's task has: its name, its locals, what it counts.
 *
 * `state` says what the thread does:
 *   1. It polls: POLLING. A wake adds WOKEN; who finds that it is ASLEEP, and nothing else, unparks the thread.
 *   2. Pending, it turns POLLING into ASLEEP (seq_cst), and then looks whether everybody sleeps: the last
 *      one to fall asleep notices (quiet.h). WOKEN, it polls again.
 *   3. Who wants it to stay asleep, to look at its future or at everybody, adds WATCHED to ASLEEP, and takes
 *      that away when it is done. A wake in between only adds WOKEN: who takes WATCHED away and finds it
 *      unparks the thread, which sleeps on until then, whatever wakes it. One watches at a time (look_lock),
 *      and holds the runtime's lock where it changes the state: so the thread does not leave. */
#ifndef AW_WORKERS_MAIN_H
#define AW_WORKERS_MAIN_H

#include "os/park.h"
#include "runtime/runtime.h"

enum {
    AW__MAIN_POLLING = 0,
    AW__MAIN_ASLEEP = 1,
    AW__MAIN_WOKEN = 2,
    AW__MAIN_WATCHED = 4 /* with ASLEEP */
};

typedef struct aw__main {
    aw__room room; /* with the task, which follows it */
    aw__task task;
    uint32_t state;     /* atomic: AW__MAIN_POLLING, or bits */
    uint32_t refs;      /* atomic: the thread's, and one for each waker */
    uint32_t stuck;     /* atomic: how often it was found in a deadlock */
    bool reports;       /* and it is the one to say so */
    uint32_t park_word; /* the thread sleeps on it */
    int64_t outside;    /* atomic: waits that something outside this runtime may end */
    aw_future *future;
    aw__meter meter;
    struct aw__main *next; /* in the list, under the runtime's lock */
} aw__main;

_Static_assert(offsetof(aw__main, task) == sizeof(aw__room), "the task is in its room");

static inline aw__main *aw__main_of(const aw__task *t) {
    return (aw__main *)((uintptr_t)t - offsetof(aw__main, task));
}

/* Rule 3. False: it does not sleep. (The load is what quiet.h relies on: an exchange that fails may have
 * seen something old.) */
static inline bool aw__main_watch(aw__main *m) {
    uint32_t asleep = AW__MAIN_ASLEEP;
    return aw__load_seq(&m->state) == AW__MAIN_ASLEEP &&
           aw__cas(&m->state, &asleep, (uint32_t)(AW__MAIN_ASLEEP | AW__MAIN_WATCHED));
}
/* It sleeps, watched, and no wake is to be seen. */
static inline bool aw__main_is_quiet(const aw__main *m) {
    return aw__load_relaxed(&m->state) == (AW__MAIN_ASLEEP | AW__MAIN_WATCHED);
}
/* Also of one that was not watched: then it changes nothing. */
static inline void aw__main_unwatch(aw__main *m) {
    const uint32_t both = AW__MAIN_WATCHED | AW__MAIN_WOKEN;
    if ((aw__fetch_and(&m->state, ~(uint32_t)AW__MAIN_WATCHED) & both) == both)
        aw__os_unpark(&m->park_word);
}
/* Call f for each that is asleep, and for this thread's. */
void aw__mains_each_asleep(struct aw__pool *p, void (*f)(aw__task *t, void *data), void *data);

/* Any thread. */
void aw__main_wake(aw__main *m);

int aw__pool_block_on(aw_runtime *rt, aw_future *f);

#endif
