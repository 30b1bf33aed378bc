/* SPDX-License-Identifier: MIT
 *
 * awake/detail/scope.h: private. The layout of scopes, and the macros that make and await them. */
#ifndef AWAKE_DETAIL_SCOPE_H
#define AWAKE_DETAIL_SCOPE_H

#include <awake/detail/forms.h>
#include <awake/detail/task.h>
#include <awake/detail/waiter.h>

/* The head of all scopes. Only `out` is public. */
#define AW__SCOPE_HEAD                                                                             \
    aw_future future;                                                                              \
    int out;                                                                                       \
    uint32_t body_at, member_at; /* offsets of the body, and of its member `scope` */              \
    uint32_t open;               /* atomic: marks a scope that has not ended */                    \
    uint32_t lock;               /* guards the members below */                                    \
    int error;                   /* the first one */                                               \
    bool ending, cut, body_ended, body_won, armed, outside;                                        \
    uint32_t limit;                                                                                \
    size_t count, running; /* children that have not ended; those that run */                      \
    aw_runtime *runtime;                                                                           \
    aw_waker waker; /* borrowed */                                                                 \
    aw__borrow borrow;                                                                             \
    aw__members members[3]; /* by state: see scope.c */                                            \
    aw__waiters slot_waiters

#define AW__SCOPE_SPAWN(scope, name, ...)                                                          \
    AW__MOVE(aw__spawned, aw_scope_spawn_future((scope), AW__SPAWNED, AW__LOCATION_OF(name)),      \
             __VA_ARGS__)

#define AW__SCOPE_OF(T, ...)                                                                       \
    ((T){.future = AW_FUTURE_INIT(&aw_scope_type),                                                 \
         .body_at = offsetof(T, body),                                                             \
         .member_at = AW__SCOPE_MEMBER(T),                                                         \
         .body = __VA_ARGS__})
/* The offset of the member `scope`; fails to compile if it is not an aw_scope pointer. */
#define AW__SCOPE_MEMBER(T)                                                                        \
    (offsetof(T, body.scope) + 0 * sizeof(_Generic(((T *)0)->body.scope, aw_scope * : 0)))

/* Awaiting in a fiber. The output is that of the body. */
#define AW__AWAIT_SCOPE(...)                                                                       \
    __extension__({                                                                                \
        AW__DECLARE_SCOPED(__VA_ARGS__);                                                           \
        AW__VALUE_OF(aw__scoped.body, AW__FIBER_SCOPED);                                           \
    })
#define AW__AWAIT_SCOPE_INTO(result, ...)                                                          \
    __extension__({                                                                                \
        AW__DECLARE_SCOPED(__VA_ARGS__);                                                           \
        AW__INTO_OF(aw__scoped.body, result, AW__FIBER_SCOPED);                                    \
    })
#define AW__DECLARE_SCOPED(...)                                                                    \
    typedef __typeof__(__VA_ARGS__) aw__scoped_body;                                               \
    typedef AW_SCOPE(aw__scoped_body) aw__scoped_type;                                             \
    aw__scoped_type aw__scoped = AW__SCOPE_OF(aw__scoped_type, __VA_ARGS__)
#define AW__FIBER_SCOPED aw_fiber_await(&aw__scoped.future, __FILE__, __LINE__) ?: aw__scoped.out

#endif
