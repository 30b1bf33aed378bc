/* SPDX-License-Identifier: MIT
 *
 * awake/set.h: a growing set of futures of one type that yields each as it finishes, in any order.
 *
 *     AW_ASYNC(int, all, aw_set set; aw_set_next_future next;) {
 *         AW_BEGIN;
 *         aw_set_init(&self->set, sizeof(struct job));
 *         aw_set_push(&self->set, AW_CALL(job, .n = 1));
 *         while (self->set.count) {
 *             AW_AWAIT(self->next, aw_set_next(&self->set));
 *             printf("%d\n", AW_SET_AS(struct job, &self->next)->out);
 *         }
 *         aw_set_free(&self->set);
 *         ...
 *
 * A wake polls only the children that were woken. Memory is allocated in blocks that double, or at
 * once by aw_set_reserve. Children never move. For futures of different types, push boxes. Use a
 * set in one task at a time. Before you free a set that still has children, cancel them with
 * AW_AWAIT(self->clear, aw_set_clear(&self->set)). */
#ifndef AWAKE_SET_H
#define AWAKE_SET_H

#include <awake/alloc.h>
#include <awake/detail/forms.h>
#include <awake/future.h>

AW_C_BEGIN

struct aw__set_block;
struct aw__set_child;

typedef struct aw_set {
    size_t child_size;
    size_t count; /* children that were pushed and not yielded yet */
    /* Private. */
    struct aw__set_block *blocks;  /* each twice as large as the one before */
    struct aw__set_child *free;    /* free slots */
    struct aw__set_child *yielded; /* slot of the child that was yielded last */
    const aw_allocator *allocator;
} aw_set;

/* Allocates nothing yet. Memory comes from the allocator of the current or entered runtime. */
AW_API void aw_set_init(aw_set *set, size_t child_size);
/* Allocate slots for `count` more children now, in one allocation: 0 or -ENOMEM. Without it, slots
 * are allocated as they are needed. */
AW_API int aw_set_reserve(aw_set *set, size_t count);
/* Free the memory. The set must have no children: see aw_set_clear. */
AW_API void aw_set_free(aw_set *set);

/* Move a future into the set: 0, -ENOMEM, or -EINVAL if it is larger than `child_size`. On error
 * the unstarted future has been cancelled. The pending aw_set_next, or the next one, gives
 * it its first poll. */
#define aw_set_push(set, ...)                                                                      \
    AW__MOVE(aw__pushed, aw_set_push_future((set), &aw__pushed.future, sizeof aw__pushed),         \
             __VA_ARGS__)
AW_API int aw_set_push_future(aw_set *set, aw_future *f, size_t size);

/* Wait for the next child that finishes. `out` points to it until the next aw_set_next or
 * aw_set_free. NULL: the set is empty. If cancelled, the children stay in the set, and the next
 * aw_set_next continues them. */
/* aw-future: aw_set_next */
typedef struct aw_set_next_future {
    aw_future future;
    aw_future *out;
    aw_set *set;
} aw_set_next_future;

/* Cancel all children, and discard the outputs of those that finish: `out` is 0. Cancelling this
 * future does not cut it short. */
/* aw-future: aw_set_clear */
typedef struct aw_set_clear_future {
    aw_future future;
    int out;
    aw_set *set;
} aw_set_clear_future;

AW_API extern const aw_future_type aw_set_next_type;
AW_API extern const aw_future_type aw_set_clear_type;

static inline aw_set_next_future aw_set_next(aw_set *set) {
    aw_set_next_future f = {AW_FUTURE_INIT(&aw_set_next_type), NULL, set};
    return f;
}
static inline aw_set_clear_future aw_set_clear(aw_set *set) {
    aw_set_clear_future f = {AW_FUTURE_INIT(&aw_set_clear_type), 0, set};
    return f;
}

/* The yielded child by its type. */
#define AW_SET_AS(T, next) ((T *)(void *)(next)->out)

AW_C_END

#endif
