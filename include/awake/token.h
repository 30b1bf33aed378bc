/* SPDX-License-Identifier: MIT
 *
 * awake/token.h: cancellation tokens. They form a tree: a cancel reaches all descendants, no
 * ancestors.
 *
 *     aw_token *all = aw_token_new(), *one = aw_token_child(all);
 *     AW_AWAIT_SELECT(self->s, aw_token_cancelled(one), work());     `out` is 0
 *     aw_token_cancel(all);                                          any thread, may be repeated
 *     aw_token_drop(one), aw_token_drop(all);                        in any order
 *
 * A cancelled token does not end a task: the task decides how to react. A child of a cancelled
 * token is cancelled from the start. Tokens are reference-counted: every user and every waiter
 * needs a reference (aw_token_keep). */
#ifndef AWAKE_TOKEN_H
#define AWAKE_TOKEN_H

#include <awake/detail/waiter.h>
#include <awake/wait.h>

AW_C_BEGIN

typedef struct aw_token aw_token;

/* With one reference. NULL: no memory. */
AW_API aw_token *aw_token_new(void);
AW_API aw_token *aw_token_child(aw_token *parent);
/* Take a reference. Returns the token. */
AW_API aw_token *aw_token_keep(aw_token *t);
/* Release a reference. NULL is allowed. Its children stay in the tree: a cancel of an ancestor
 * reaches them. */
AW_API void aw_token_drop(aw_token *t);

AW_API void aw_token_cancel(aw_token *t);
AW_API bool aw_token_is_cancelled(const aw_token *t);

/* aw-future: aw_token_cancelled */
typedef struct aw_token_future {
    AW__WAITER;
    aw_token *token;
} aw_token_future;

AW_API extern const aw_future_type aw_token_cancelled_type;

/* `out` is 0. Keep your reference until this has ended. */
static inline aw_token_future aw_token_cancelled(aw_token *t) {
    aw_token_future f = {AW__WAITER_INIT(&aw_token_cancelled_type, 0), t};
    return f;
}

AW_C_END

#endif
