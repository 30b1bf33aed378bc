/* SPDX-License-Identifier: MIT
 *
 * awake/scope.h: tasks that borrow: a scope ends only when all that was spawned into it has ended.
 *
 *     AW_ASYNC(int, fetch_all, aw_scope *scope; const char **urls; struct page *pages; int n;) {
 *         AW_BEGIN;                                                          the body
 *         for (int i = 0; i < self->n; i++)
 *             aw_scope_spawn(self->scope, AW_CALL(fetch, .url = self->urls[i], .into = &self->pages[i]));
 *         AW_RETURN(0);
 *         AW_END;
 *     }
 *
 *     AW_ASYNC(int, show, struct page pages[10]; AW_SCOPE(struct fetch_all) s;) {
 *         AW_BEGIN;
 *         AW_AWAIT_SCOPE(self->s, AW_CALL(fetch_all, .pages = self->pages, ...));
 *         if (self->s.out == 0) ...                                          all of them are there
 *
 *     int n = aw_await_scope(AW_CALL(fetch_all, ...));                       the same in a fiber
 *
 * A scope is a future with a body, which is an async function or a fiber that has a member `aw_scope *scope`.
 * The body, and all that was spawned into the scope, may spawn into it. These children are tasks, on any worker.
 * They may borrow whatever outlives the scope: members of who awaits it, locals of a fiber that does; but not
 * what the body itself has, which may end before them.
 *
 *   It ends when the body and all children have. `out` is 0, and the output of the body is in `body.out`; or
 *   the first error: a negative output (of a type that carries errors) or a failed task (AW_FAIL), of a child
 *   or of the body. Then the others are cancelled and waited for, and what they had finished is discarded. So
 *   is every output of a child: what it has to say it writes to what it borrows. A child that others cancel,
 *   because the runtime ends, counts as -ECANCELED.
 *
 *   Cancelled, it cancels body and children and waits until they are gone. It is finished if all of them were.
 *
 *   Who polls one by hand and ends while it runs is caught, with the scope's chain: an async function, a task, the
 *   future of block_on that has it in its frame, a fiber that has it on its stack. Under an executor of one's own,
 *   outside a task, it is caught only when its memory is moved, freed or overwritten. */
#ifndef AWAKE_SCOPE_H
#define AWAKE_SCOPE_H

#include <awake/fiber.h>
#include <awake/task.h>
#include <awake/wait.h>

AW_C_BEGIN

/* What all scopes begin with. Only `out` is for the user. */
#define AW__SCOPE_HEAD                                                                             \
    aw_future future;                                                                              \
    int out;                                                                                       \
    uint32_t body_at, member_at; /* the body, and its member `scope` */                            \
    uint32_t open;               /* atomic: says that this is a scope, and not over */             \
    uint32_t lock;               /* guards what follows */                                         \
    int error;                   /* the first */                                                   \
    bool ending, cut, body_ended, body_won, armed, outside;                                        \
    uint32_t limit;                                                                                \
    size_t count, running; /* children that have not ended; of these, those that have begun */     \
    aw_runtime *runtime;                                                                           \
    aw_waker waker; /* borrowed */                                                                 \
    aw__open opened;                                                                               \
    aw__members members[3]; /* by their state: scope.c */                                          \
    aw__waiters rooms

typedef struct __attribute__((may_alias)) aw_scope {
    AW__SCOPE_HEAD;
} aw_scope;

/* aw-future: AW_SCOPE */
#define AW_SCOPE(F)                                                                                \
    struct {                                                                                       \
        AW__SCOPE_HEAD;                                                                            \
        F body;                                                                                    \
    }

AW_API extern const aw_future_type aw_scope_type;

/* Spawn into a scope: by its body and its children, on the runtime that polls the scope. 0, or why it failed, as
 * for aw_spawn: then the unstarted future has been cancelled. -ECANCELED also when the scope is ending. */
#define aw_scope_spawn(scope, ...)             AW__SCOPE_SPAWN(scope, NULL, __VA_ARGS__)
#define aw_scope_spawn_named(scope, name, ...) AW__SCOPE_SPAWN(scope, "" name, __VA_ARGS__)
#define AW__SCOPE_SPAWN(scope, name, ...)                                                          \
    __extension__({                                                                                \
        AW__ASSERT_ALIGNED(__VA_ARGS__);                                                           \
        __typeof__(__VA_ARGS__) aw__spawned = (__VA_ARGS__);                                       \
        static const aw_place aw__at = {__FILE__, __LINE__, name};                                 \
        aw_scope_spawn_future((scope), &aw__spawned.future, sizeof aw__spawned, &aw__at);          \
    })
/* The erased form. */
AW_API int aw_scope_spawn_future(aw_scope *scope, aw_future *f, size_t size, const aw_place *place);

/* How many children there are that have not ended, at this moment. */
AW_API size_t aw_scope_count(const aw_scope *scope);

/* At most so many children run at once (0: any number, as at first). One too many is spawned, and begins when
 * others have ended, in the order of the spawns. The body does not count. A limit that is lowered stops nobody. */
AW_API void aw_scope_limit(aw_scope *scope, uint32_t limit);

/* Wait until a child that is spawned now would begin at once, so that children do not pile up. `out` is 0, or
 * -ECANCELED: the scope is ending. Nothing is reserved: several that wait are all told. A child that waits for
 * room keeps its own place meanwhile. */
/* aw-future: aw_scope_room */
typedef struct aw_scope_room_future {
    AW__WAITER;
    aw_scope *scope;
} aw_scope_room_future;

AW_API extern const aw_future_type aw_scope_room_type;

static inline aw_scope_room_future aw_scope_room(aw_scope *scope) {
    aw_scope_room_future f = {AW__WAITER_INIT(&aw_scope_room_type, 0), scope};
    return f;
}
/* The same without waiting: 0, -EAGAIN, -ECANCELED. */
AW_API int aw_scope_try_room(aw_scope *scope);

/* Values of a named type: typedef AW_SCOPE(struct fetch_all) fetch_scope; */
#ifndef __cplusplus
#define AW_SCOPE_OF(T, ...)                                                                        \
    ((T){.future = AW_FUTURE_INIT(&aw_scope_type),                                                 \
         .body_at = offsetof(T, body),                                                             \
         .member_at = AW__SCOPE_MEMBER(T),                                                         \
         .body = __VA_ARGS__})
/* Where it is, if it is one. */
#define AW__SCOPE_MEMBER(T)                                                                        \
    (offsetof(T, body.scope) + 0 * sizeof(_Generic(((T *)0)->body.scope, aw_scope * : 0)))

#define AW_AWAIT_SCOPE(child, ...) AW_AWAIT(child, AW_SCOPE_OF(__typeof__(child), __VA_ARGS__))

/* ---- In a fiber -------------------------------------------------------------------------------
 *
 *     T   aw_await_scope(body)              T is a signed integer: the body's output, or the scope's error
 *     int aw_await_scope_into(&out, body)   any output: 0, or an error and `out` is untouched
 *
 * -ECANCELED when the fiber is cancelled, after the children are gone. */
#define aw_await_scope(...)                                                                        \
    __extension__({                                                                                \
        AW__FIBER_SCOPE(__VA_ARGS__);                                                              \
        AW__ASSERT_ERRNO(aw__scoped.body.out);                                                     \
        (__typeof__(aw__scoped.body.out))(aw__err ? aw__err : aw__scoped.body.out);                \
    })
#define aw_await_scope_into(result, ...)                                                           \
    __extension__({                                                                                \
        AW__FIBER_SCOPE(__VA_ARGS__);                                                              \
        if (!aw__err) *(result) = aw__scoped.body.out;                                             \
        aw__err;                                                                                   \
    })
#define AW__FIBER_SCOPE(...)                                                                       \
    typedef __typeof__(__VA_ARGS__) aw__scoped_body;                                               \
    typedef AW_SCOPE(aw__scoped_body) aw__scoped_type;                                             \
    aw__scoped_type aw__scoped = AW_SCOPE_OF(aw__scoped_type, __VA_ARGS__);                        \
    int aw__err = aw_fiber_await(&aw__scoped.future, __FILE__, __LINE__);                          \
    if (!aw__err) aw__err = aw__scoped.out
#endif

AW_C_END

#endif
