/* SPDX-License-Identifier: MIT
 *
 * awake/once.h: something is made once, by whoever comes first; the others wait for it.
 *
 *     static AW_ONCE_CELL(struct config) config;                all zero: it is not there
 *
 *     AW_AWAIT(self->enter, aw_once_enter(&config));            `out` is 0: it is there; 1: this one makes it
 *     if (self->enter.out == 1) {
 *         AW_AWAIT(self->load, AW_CALL(load, ...));             may await, and fail
 *         if (self->load.out == 0) aw_once_set(&config, self->load.result);
 *         else aw_once_give_up(&config);                        the next one that waits has to make it
 *     }
 *     struct config *c = aw_once_get(&config);                  NULL: it is not there
 *
 * Who makes it calls aw_once_set or aw_once_give_up, exactly once; one that is cancelled meanwhile gives up in its cleanup.
 * Discarding an enter that had finished gives up, too. Tasks of any runtime, fibers and plain threads (aw_wait) may use
 * the same one. */
#ifndef AWAKE_ONCE_H
#define AWAKE_ONCE_H

#include <awake/wait.h>

AW_C_BEGIN

/* Without a value: all zero is ready for use. Must outlive its waiters and each call; nothing to free. */
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

/* A pointer to the value; NULL: it is not there. One that was seen stays. */
#define aw_once_get(cell)                                                                          \
    __extension__({                                                                                \
        __typeof__(cell) aw__cell = (cell);                                                        \
        __typeof__(&aw__cell->value) aw__value = &aw__cell->value;                                 \
        if (!aw_once_is_done(&aw__cell->once)) aw__value = NULL;                                   \
        aw__value;                                                                                 \
    })
/* By the one who makes it. */
#define aw_once_set(cell, ...)                                                                     \
    __extension__({                                                                                \
        __typeof__(cell) aw__cell = (cell);                                                        \
        aw__cell->value = (__VA_ARGS__);                                                           \
        aw_once_done(&aw__cell->once);                                                             \
    })
#define aw_once_give_up(cell)   aw_once_undone(&(cell)->once)
#define aw_once_enter(cell)     aw_once_begin(&(cell)->once)
#define aw_once_try_enter(cell) aw_once_try_begin(&(cell)->once)

/* ---- The same without a value ----------------------------------------------------------------- */

/* What was done before aw_once_done is visible to who sees that it is done. */
AW_API bool aw_once_is_done(const aw_once *o);
/* By the one who makes it; otherwise they end the program with a message. */
AW_API void aw_once_done(aw_once *o);
AW_API void aw_once_undone(aw_once *o);
/* Without waiting: 0: it is done; 1: this one makes it; -EAGAIN: another one does. */
AW_API int aw_once_try_begin(aw_once *o);

/* aw-future: aw_once_begin */
typedef struct aw_once_future {
    AW__WAITER;
    aw_once *once;
} aw_once_future;

AW_API extern const aw_future_type aw_once_begin_type;

/* `out` is 0: it is done; 1: this one makes it. */
static inline aw_once_future aw_once_begin(aw_once *o) {
    aw_once_future f = {AW__WAITER_INIT(&aw_once_begin_type, 0), o};
    return f;
}

AW_C_END

#endif
