/* SPDX-License-Identifier: MIT
 *
 * awake/detail/meter.h: private. What an executor counts while it polls a future: operations,
 * waits, and borrows that are open. */
#ifndef AWAKE_DETAIL_METER_H
#define AWAKE_DETAIL_METER_H

#include <awake/config.h>

/* The counts of one poll. */
typedef struct aw__meter {
    uint32_t budget;     /* operations left in this poll */
    int32_t armed;       /* change in the number of waits that will wake the task */
    int32_t outside;     /* of those, waits that may end from outside the runtime */
    int32_t self_waits;  /* waits begun in this poll for something the task itself held */
    int32_t cancelling;  /* change in the number of futures being cancelled */
    int fail;            /* negative errno that the task must end with, or 0 */
    uint32_t borrows;    /* open borrows of the task: see aw__borrow */
    bool pinned;         /* the task must stay on this thread from now on */
    bool yielding;       /* a wake of the running task is a yield now */
    bool summed;         /* meter of a combinator: the parent counts one wait for all */
    uint64_t random;     /* state of aw_cx_random */
    uint32_t stack_size; /* of fibers that set none; 0: the default */
} aw__meter;

/* The waits of a combinator's children, which may begin under one executor and end under
 * another. */
typedef struct aw__child_waits {
    int32_t armed, outside; /* as in aw__meter, summed over the children */
    uint8_t counted_as;     /* the wait that the parent counts for them */
} aw__child_waits;

/* An object that must end before its memory goes away: a scope, a generator. All zero while it is
 * not open. */
typedef struct aw__borrow {
    uintptr_t mark; /* made of its own address: a search of the memory finds it */
    const struct aw_future *what;
    void *task;  /* counts this borrow */
    void *fiber; /* has it on its stack, and counts it too */
} aw__borrow;

#endif
