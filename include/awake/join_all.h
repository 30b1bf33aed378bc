/* SPDX-License-Identifier: MIT
 *
 * awake/join_all.h: join_all, try_join_all and select_all over an array of futures of one type.
 *
 *     struct job jobs[10];                 in memory that outlives the await
 *     AW_AWAIT(self->all, aw_join_all(self->jobs, 10));
 *
 * The array stays where it is. The output of each future is in its element.
 *
 *   join_all      `out` is 0 when all have finished.
 *   try_join_all  `out` is the first negative output; the other futures are cancelled and their
 *                 outputs discarded.
 *   select_all    `out` is the index of the first that finished, once the others have ended.
 *                 Several may have finished: visit them with aw_select_all_next, or discard all
 *                 but the first with aw_select_all_winner. -EINVAL if the array is empty.
 *
 * With more than 30 elements each child has its own waker, and a wake polls only the children that
 * were woken. This takes one allocation at the first poll; if it fails, every wake polls all
 * children. So a pending child must keep the waker that it is given. A child that relies on being
 * polled anyway is never polled again, and is reported. */
#ifndef AWAKE_JOIN_ALL_H
#define AWAKE_JOIN_ALL_H

#include <awake/future.h>

AW_C_BEGIN

struct aw__wakeset;

/* aw-future: aw_all */
typedef struct aw_all {
    aw_future future;
    int out;
    /* Private. */
    uint32_t flags;
    char *base;
    size_t stride, count;
    size_t ended;  /* how many children have ended */
    size_t walk;   /* where to begin; after a select_all, how far aw_select_all_next has come */
    size_t winner; /* index of the child that decided the result */
    struct aw__wakeset *wakes; /* above 30 children: their wakers */
} aw_all;

AW_API extern const aw_future_type aw_join_all_type;
AW_API extern const aw_future_type aw_try_join_all_type;
AW_API extern const aw_future_type aw_select_all_type;

#define AW__ALL(kind, array, n)   aw_all_of(&kind, &(array)[0].future, sizeof(array)[0], (n))
#define aw_join_all(array, n)     AW__ALL(aw_join_all_type, array, n)
#define aw_try_join_all(array, n) AW__ALL(aw_try_join_all_type, array, n)
#define aw_select_all(array, n)   AW__ALL(aw_select_all_type, array, n)

/* The type-erased form: `count` futures, `stride` bytes apart. */
AW_API aw_all aw_all_of(const aw_future_type *kind, aw_future *first, size_t stride, size_t count);

/* After a select_all: the index of the next finished future that was not taken yet, or -1. */
AW_API ptrdiff_t aw_select_all_next(aw_all *all);
/* The index of the first that finished. Discards the outputs of all others that did. */
AW_API ptrdiff_t aw_select_all_winner(aw_all *all);

AW_C_END

#endif
