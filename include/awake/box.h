/* SPDX-License-Identifier: MIT
 *
 * awake/box.h: a future in its own allocation. Use it for recursion, for lists of different
 * futures, and to move a future that has been polled: the box may move, the future inside stays.
 *
 *     AW_ASYNC(long, fib, int n; aw_box a;) {
 *         AW_BEGIN;
 *         if (self->n < 2) AW_RETURN(self->n);
 *         AW_AWAIT(self->a, aw_box_new(AW_CALL(fib, .n = self->n - 1)));
 *         if (self->a.out < 0) AW_RETURN(self->a.out);         no memory
 *         AW_RETURN(aw_box_take(struct fib, &self->a) + ...);
 *
 * A box owns memory from the start: poll it to its end, cancel it, or pass it to aw_box_free. `out`
 * is 0, or -ENOMEM: then the unstarted future has been cancelled. When it is ready you may read the
 * inner future until aw_box_take or aw_box_free. A cancelled box has freed its memory. */
#ifndef AWAKE_BOX_H
#define AWAKE_BOX_H

#include <awake/alloc.h>
#include <awake/detail/forms.h>
#include <awake/future.h>

AW_C_BEGIN

/* aw-future: aw_box */
typedef struct aw_box {
    aw_future future;
    int out;
    aw_future *inner; /* NULL: no memory, or already freed */
    /* Private. */
    size_t size;
    const aw_allocator *allocator;
} aw_box;

AW_API extern const aw_future_type aw_box_type;

/* Move a future into a box. The memory comes from the allocator of the current or entered
 * runtime. */
#define aw_box_new(...)                                                                            \
    AW__MOVE(aw__boxed, aw_box_future(&aw__boxed.future, sizeof aw__boxed), __VA_ARGS__)
AW_API aw_box aw_box_future(aw_future *f, size_t size);

/* The inner future by its type: AW_BOX_AS(struct fib, &box)->out. */
#define AW_BOX_AS(T, box) ((T *)aw__box_inner((box), sizeof(T)))
AW_API void *aw__box_inner(const aw_box *box, size_t size);

/* The output of a finished box. Frees the memory. */
#define aw_box_take(T, box)                                                                        \
    AW__TAKE(AW_BOX_AS(T, aw__box)->out, aw_box_free(aw__box), aw_box *aw__box = (box))

/* Free the memory of a finished box, after you have taken its output, or of a box that was never
 * polled: then its future is cancelled. Does nothing if the memory has been freed already. */
AW_API void aw_box_free(aw_box *box);

AW_C_END

#endif
