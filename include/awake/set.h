/* SPDX-License-Identifier: MIT
 *
 * awake/set.h: a growing set of equal futures that yields each as it finishes, in any order.
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
 * Only the children that were woken are polled. Memory is taken in blocks that double, or at once by aw_set_reserve;
 * a child never moves. Unlike futures go in as boxes. One task at a time. A set that still has children is emptied
 * with AW_AWAIT(self->clear, aw_set_clear(&self->set)), which cancels them, before it is freed. */
#ifndef AWAKE_SET_H
#define AWAKE_SET_H

#include <awake/alloc.h>
#include <awake/future.h>

AW_C_BEGIN

struct aw__set_block;
struct aw__set_child;

typedef struct aw_set {
    size_t child_size;
    size_t count;                  /* children that were pushed and not yielded yet */
    struct aw__set_block *blocks;  /* each twice as large as the one made before */
    struct aw__set_child *free;    /* room for more */
    struct aw__set_child *yielded; /* room of the child that was handed out last */
    const aw_allocator *allocator;
} aw_set;

/* Allocates nothing yet; the allocator is that of the current or entered runtime. */
AW_API void aw_set_init(aw_set *set, size_t child_size);
/* Take the room for so many more children now, in one allocation: 0 or -ENOMEM. Without it, room is taken as
 * it is needed. */
AW_API int aw_set_reserve(aw_set *set, size_t count);
/* Give the memory back. Its children must be gone: see aw_set_clear. */
AW_API void aw_set_free(aw_set *set);

/* Move a future into the set: 0; -ENOMEM, or -EINVAL when it is larger than the set's children, and
 * the unstarted future has been cancelled. It is first polled by the aw_set_next that is pending,
 * or by the next. */
#define aw_set_push(set, ...)                                                                      \
    __extension__({                                                                                \
        AW__ASSERT_ALIGNED(__VA_ARGS__);                                                           \
        __typeof__(__VA_ARGS__) aw__pushed = (__VA_ARGS__);                                        \
        aw_set_push_future((set), &aw__pushed.future, sizeof aw__pushed);                          \
    })
AW_API int aw_set_push_future(aw_set *set, aw_future *f, size_t size);

/* The next child that finishes: `out` is it, readable until the next aw_set_next or aw_set_free; NULL
 * when the set is empty. Cancelled, the children stay in the set and go on at the next one. */
/* aw-future: aw_set_next */
typedef struct aw_set_next_future {
    aw_future future;
    aw_future *out;
    aw_set *set;
} aw_set_next_future;

/* Cancel all children and discard those that finish: `out` is 0. Cannot itself be cut short. */
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

/* The child that was yielded, as what it is. */
#define AW_SET_AS(T, next) ((T *)(void *)(next)->out)

AW_C_END

#endif
