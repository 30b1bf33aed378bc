/* SPDX-License-Identifier: MIT
 *
 * awake/once.h: the first caller initialises a value; later callers wait for it.
 *
 *     static AW_ONCE_CELL(struct config) config;                all zero: not initialised
 *
 *     AW_AWAIT(self->enter, aw_once_enter(&config));            `out` is 0: done; 1: initialise it
 *     if (self->enter.out == 1) {
 *         AW_AWAIT(self->load, AW_CALL(load, ...));             may await, and fail
 *         if (self->load.out == 0) aw_once_set(&config, self->load.result);
 *         else aw_once_give_up(&config);                        then the next waiter does it
 *     }
 *     struct config *c = aw_once_get(&config);                  NULL: not initialised
 *
 * If `out` is 1, call aw_once_set or aw_once_give_up exactly once. If you are cancelled meanwhile,
 * give up in your cleanup. Discarding a finished enter gives up too. Tasks of any runtime, fibers
 * and plain threads (aw_wait) may use the same cell. */
#ifndef AWAKE_ONCE_H
#define AWAKE_ONCE_H

#include <awake/detail/waiter.h>
#include <awake/wait.h>

AW_C_BEGIN

/* Without a value. All zero is ready for use. Must outlive its waiters and each call; nothing to
 * free. Its members are private. */
typedef struct aw_once {
    uint32_t state; /* atomic: once.c */
    uint32_t lock;
    aw__waiters waiters;
} aw_once;

/* clang-format off */
#define AW_ONCE_INIT {0, 0, {NULL, NULL}}
/* clang-format on */

/* With a value. */
#define AW_ONCE_CELL(T)                                                                            \
    struct {                                                                                       \
        aw_once once;                                                                              \
        T value;                                                                                   \
    }

/* A pointer to the value, or NULL: not initialised. Once set, the value stays. */
#define aw_once_get(cell)                                                                          \
    __extension__({                                                                                \
        __typeof__(cell) aw__cell = (cell);                                                        \
        __typeof__(&aw__cell->value) aw__value = &aw__cell->value;                                 \
        if (!aw_once_is_done(&aw__cell->once)) aw__value = NULL;                                   \
        aw__value;                                                                                 \
    })
/* By the caller that initialises. */
#define aw_once_set(cell, ...)                                                                     \
    __extension__({                                                                                \
        __typeof__(cell) aw__cell = (cell);                                                        \
        aw__cell->value = (__VA_ARGS__);                                                           \
        aw_once_done(&aw__cell->once);                                                             \
    })
#define aw_once_give_up(cell)   aw_once_undone(&(cell)->once)
#define aw_once_enter(cell)     aw_once_begin(&(cell)->once)
#define aw_once_try_enter(cell) aw_once_try_begin(&(cell)->once)

/* ---- The same without a value ---------------------------------------------------------------- */

/* Whatever happened before aw_once_done is visible after this has returned true. */
AW_API bool aw_once_is_done(const aw_once *o);
/* By the caller that initialises; any other call aborts with a message. */
AW_API void aw_once_done(aw_once *o);
AW_API void aw_once_undone(aw_once *o);
/* Without waiting: 0: done; 1: initialise it; -EAGAIN: another caller does. */
AW_API int aw_once_try_begin(aw_once *o);

/* aw-future: aw_once_begin */
typedef struct aw_once_future {
    AW__WAITER;
    aw_once *once;
} aw_once_future;

AW_API extern const aw_future_type aw_once_begin_type;

/* `out` is 0: done; 1: initialise it. */
static inline aw_once_future aw_once_begin(aw_once *o) {
    aw_once_future f = {AW__WAITER_INIT(&aw_once_begin_type, 0), o};
    return f;
}

AW_C_END

#endif
