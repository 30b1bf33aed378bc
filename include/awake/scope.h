/* SPDX-License-Identifier: MIT
 *
 * awake/scope.h: tasks that may borrow: a scope ends only when all its tasks have ended.
 *
 *     AW_ASYNC(int, fetch_all, aw_scope *scope; const char **urls; struct page *pages; int n;) {
 *         AW_BEGIN;                                                          the body
 *         for (int i = 0; i < self->n; i++)
 *             aw_scope_spawn(self->scope,
 *                            AW_CALL(fetch, .url = self->urls[i], .into = &self->pages[i]));
 *         AW_RETURN(0);
 *         AW_END;
 *     }
 *
 *     AW_ASYNC(int, show, struct page pages[10]; AW_SCOPE(struct fetch_all) s;) {
 *         AW_BEGIN;
 *         AW_AWAIT_SCOPE(self->s, AW_CALL(fetch_all, .pages = self->pages, ...));
 *         if (self->s.out == 0) ...                                          all pages are there
 *
 *     int n = aw_await_scope(AW_CALL(fetch_all, ...));                       the same in a fiber
 *
 * A scope is a future with a body: an async function or a fiber with a member `aw_scope *scope`.
 * The body and everything spawned into the scope may spawn into it. These children are tasks and
 * run on any worker. They may borrow what outlives the scope: members of the frame that awaits it,
 * locals of the fiber that awaits it. They must not borrow from the body, which may end first.
 *
 * A scope ends when its body and all children have. `out` is 0, and the body's output is in
 * `body.out`; or it is the first error of a child or of the body: a negative output (of a type that
 * carries errors), or a failed task (AW_FAIL). The first error cancels all the rest; the scope
 * waits for it and discards its outputs. Outputs of children are always discarded: write results to
 * borrowed memory. A child that is cancelled from outside, because the runtime ends, counts as
 * -ECANCELED.
 *
 * Cancelling a scope cancels the body and the children and waits for their end. The scope ends
 * finished if all of them finished.
 *
 * A scope must end before the memory that contains it. If you poll it yourself and leave early, the
 * program aborts with the scope's await chain: this is checked at the end of an async function, a
 * task or a block_on future with the scope in its frame, and of a fiber with the scope on its
 * stack. Under your own executor, outside a task, it is noticed only when the memory is moved,
 * freed or overwritten. */
#ifndef AWAKE_SCOPE_H
#define AWAKE_SCOPE_H

#include <awake/detail/scope.h>
#include <awake/fiber.h>
#include <awake/task.h>
#include <awake/wait.h>

AW_C_BEGIN

/* Its members are private, except `out`. */
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

/* Spawn into a scope, from its body or a child, on the runtime that polls the scope. Returns 0, or
 * an error as for aw_spawn: then the unstarted future has been cancelled. -ECANCELED also if the
 * scope is ending. */
#define aw_scope_spawn(scope, ...)             AW__SCOPE_SPAWN(scope, NULL, __VA_ARGS__)
#define aw_scope_spawn_named(scope, name, ...) AW__SCOPE_SPAWN(scope, "" name, __VA_ARGS__)
/* The type-erased form. */
AW_API int aw_scope_spawn_future(aw_scope *scope, aw_future *f, size_t size,
                                 const aw_location *location);

/* The number of children that have not ended, at this moment. */
AW_API size_t aw_scope_count(const aw_scope *scope);

/* Let at most `limit` children run at once; 0, the default, means no limit. A child above the limit
 * is spawned and starts when others have ended, in the order of the spawns. The body does not
 * count. Lowering the limit stops no child. */
AW_API void aw_scope_limit(aw_scope *scope, uint32_t limit);

/* Wait until a child spawned now would start at once, so that children do not pile up. `out` is 0,
 * or -ECANCELED: the scope is ending. Nothing is reserved: a free slot wakes all waiters. A child
 * that waits here keeps its own slot. */
/* aw-future: aw_scope_slot */
typedef struct aw_scope_slot_future {
    AW__WAITER;
    aw_scope *scope;
} aw_scope_slot_future;

AW_API extern const aw_future_type aw_scope_slot_type;

static inline aw_scope_slot_future aw_scope_slot(aw_scope *scope) {
    aw_scope_slot_future f = {AW__WAITER_INIT(&aw_scope_slot_type, 0), scope};
    return f;
}
/* The same without waiting: 0, -EAGAIN, -ECANCELED. */
AW_API int aw_scope_try_slot(aw_scope *scope);

/* Values of a named type: typedef AW_SCOPE(struct fetch_all) fetch_scope; */
#ifndef __cplusplus
#define AW_SCOPE_OF(T, ...)        AW__SCOPE_OF(T, __VA_ARGS__)
#define AW_AWAIT_SCOPE(child, ...) AW_AWAIT(child, AW_SCOPE_OF(__typeof__(child), __VA_ARGS__))

/* ---- In a fiber -------------------------------------------------------------------------------
 *
 *     T   aw_await_scope(body)              T is a signed integer: the body's output, or the error
 *     int aw_await_scope_into(&out, body)   any output: 0, or an error and `out` untouched
 *
 * -ECANCELED if the fiber is cancelled, after the children have ended. */
#define aw_await_scope(...)              AW__AWAIT_SCOPE(__VA_ARGS__)
#define aw_await_scope_into(result, ...) AW__AWAIT_SCOPE_INTO(result, __VA_ARGS__)
#endif

AW_C_END

#endif
