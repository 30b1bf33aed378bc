/* SPDX-License-Identifier: MIT
 *
 * awake/token.h: ask many to stop. Tokens form a tree: cancelling one cancels those below it, and none above.
 *
 *     aw_token *all = aw_token_new(), *one = aw_token_child(all);
 *     AW_AWAIT_SELECT(self->s, aw_token_cancelled(one), work());     `out` is 0
 *     aw_token_cancel(all);                                          any thread, also more than once
 *     aw_token_drop(one), aw_token_drop(all);                        in any order
 *
 * What a task does about it is its own affair: it is told, and not ended. A child of a token that is cancelled is cancelled
 * from the start. A token is counted: whoever has it, and whoever waits for it, needs a reference (aw_token_keep). */
#ifndef AWAKE_TOKEN_H
#define AWAKE_TOKEN_H

#include <awake/wait.h>

AW_C_BEGIN

typedef struct aw_token aw_token;

/* With one reference. NULL when there is no memory. */
AW_API aw_token *aw_token_new(void);
AW_API aw_token *aw_token_child(aw_token *parent);
/* Another reference: returns the token. */
AW_API aw_token *aw_token_keep(aw_token *t);
/* Give one back. NULL is nothing to give back. Its children stay in the tree, below what is above it. */
AW_API void aw_token_drop(aw_token *t);

AW_API void aw_token_cancel(aw_token *t);
AW_API bool aw_token_is_cancelled(const aw_token *t);

/* aw-future: aw_token_cancelled */
typedef struct aw_token_future {
    AW__WAITER;
    aw_token *token;
} aw_token_future;

AW_API extern const aw_future_type aw_token_cancelled_type;

/* `out` is 0. The reference is the caller's, until its end. */
static inline aw_token_future aw_token_cancelled(aw_token *t) {
    aw_token_future f = {AW__WAITER_INIT(&aw_token_cancelled_type, 0), t};
    return f;
}

AW_C_END

#endif
