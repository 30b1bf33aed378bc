/* SPDX-License-Identifier: MIT
 *
 * awake/all.h: join_all, try_join_all and select_all over an array of equal futures.
 *
 *     struct job jobs[10];                 in memory that outlives the await
 *     AW_AWAIT(self->all, aw_join_all(self->jobs, 10));
 *
 * The array stays where it is; the output of each is in its element, in order. Above 30 elements each
 * child gets a waker of its own, and only those that were woken are polled; that takes one allocation
 * at the first poll (without memory for it all of them are polled each time). A pending child must
 * therefore keep the waker that it was given: one that relies on being polled anyway is never
 * polled again, and is reported.
 *
 *   join_all      `out` is 0 when all have finished
 *   try_join_all  `out` is the first negative output: the others are cancelled and discarded
 *   select_all    `out` is the index of the first that finished, when the others are gone; several may
 *                 have: walk them with aw_select_all_next, or let aw_select_all_winner discard the rest.
 *                 -EINVAL when the array is empty. */
#ifndef AWAKE_ALL_H
#define AWAKE_ALL_H

#include <awake/future.h>

AW_C_BEGIN

struct aw__wakeset;

/* aw-future: aw_all */
typedef struct aw_all {
    aw_future future;
    int out;
    uint32_t flags;
    char *base;
    size_t stride, count;
    size_t ended;              /* how many have */
    size_t walk;               /* where to begin; after a select_all: how far its walk has come */
    size_t winner;             /* who decided it */
    struct aw__wakeset *wakes; /* above 30: a waker for each */
} aw_all;

AW_API extern const aw_future_type aw_join_all_type;
AW_API extern const aw_future_type aw_try_join_all_type;
AW_API extern const aw_future_type aw_select_all_type;

#define AW__ALL(kind, array, n)   aw_all_of(&kind, &(array)[0].future, sizeof(array)[0], (n))
#define aw_join_all(array, n)     AW__ALL(aw_join_all_type, array, n)
#define aw_try_join_all(array, n) AW__ALL(aw_try_join_all_type, array, n)
#define aw_select_all(array, n)   AW__ALL(aw_select_all_type, array, n)

/* The same for erased code: `count` futures, `stride` bytes from one to the next. */
AW_API aw_all aw_all_of(const aw_future_type *kind, aw_future *first, size_t stride, size_t count);

/* After a select_all: the next index that finished and was not taken yet, or -1. */
AW_API ptrdiff_t aw_select_all_next(aw_all *all);
/* The first that finished; any other that did is discarded. */
AW_API ptrdiff_t aw_select_all_winner(aw_all *all);

AW_C_END

#endif
