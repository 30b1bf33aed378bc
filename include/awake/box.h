/* SPDX-License-Identifier: MIT
 *
 * awake/box.h: a future in memory of its own: for recursion, for lists of unlike futures, and for
 * moving one that has been polled (the box may move, what is inside stays).
 *
 *     AW_ASYNC(long, fib, int n; aw_box a;) {
 *         AW_BEGIN;
 *         if (self->n < 2) AW_RETURN(self->n);
 *         AW_AWAIT(self->a, aw_box_new(AW_CALL(fib, .n = self->n - 1)));
 *         if (self->a.out < 0) AW_RETURN(self->a.out);         no memory
 *         AW_RETURN(aw_box_take(struct fib, &self->a) + ...);
 *
 * A box owns memory from the start: it must be polled to its end, cancelled, or given to
 * aw_box_free. `out` is 0,
 * or -ENOMEM (then the unstarted future was cancelled). After it is ready the inner future stays
 * readable until aw_box_take or aw_box_free; when cancelled the memory is given back. */
#ifndef AWAKE_BOX_H
#define AWAKE_BOX_H

#include <awake/alloc.h>
#include <awake/future.h>

AW_C_BEGIN

/* aw-future: aw_box */
typedef struct aw_box {
    aw_future future;
    int out;
    aw_future *inner; /* NULL: there was no memory, or it has been given back */
    size_t size;
    const aw_allocator *allocator;
} aw_box;

AW_API extern const aw_future_type aw_box_type;

/* Move a future into a box. The allocator is that of the current or entered runtime. */
#define aw_box_new(...)                                                                            \
    __extension__({                                                                                \
        AW__ASSERT_ALIGNED(__VA_ARGS__);                                                           \
        __typeof__(__VA_ARGS__) aw__boxed = (__VA_ARGS__);                                         \
        aw_box_future(&aw__boxed.future, sizeof aw__boxed);                                        \
    })
AW_API aw_box aw_box_future(aw_future *f, size_t size);

/* The inner future as what it is: AW_BOX_AS(struct fib, &box)->out. */
#define AW_BOX_AS(T, box) ((T *)aw__box_inner((box), sizeof(T)))
AW_API void *aw__box_inner(const aw_box *box, size_t size);

/* The output of a finished box; its memory is given back. */
#define aw_box_take(T, box)                                                                        \
    __extension__({                                                                                \
        aw_box *aw__box = (box);                                                                   \
        __typeof__(AW_BOX_AS(T, aw__box)->out) aw__out = AW_BOX_AS(T, aw__box)->out;               \
        aw_box_free(aw__box);                                                                      \
        aw__out;                                                                                   \
    })

/* Give the memory back: of a finished box, whose output has been taken; or of one that was never
 * polled, whose future is cancelled. Harmless when it is gone already. */
AW_API void aw_box_free(aw_box *box);

AW_C_END

#endif
