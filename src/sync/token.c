/* SPDX-License-Identifier: MIT
 *
 * Cancel tokens. Any thread may call these functions. A tree has one short lock, in its root, which
 * guards the links and the queues of all its tokens. A child holds a reference to its parent, so
 * the path to the root exists as long as any descendant does. Only two things are done without the
 * lock: reference counting, and loading `cancelled`, which is stored with release and never reset.
 *
 * A cancel has two steps. Under the lock it marks the whole subtree, so that no new wait begins
 * there and new children are born cancelled. Tokens with waiters are referenced and put into a
 * list. Then it wakes their waiters, token by token. Tokens that were marked before have been, or
 * are being, served by another cancel. */
#include <awake/token.h>

#include "base/allocate.h"
#include "base/list.h"
#include "future/waiters.h"

struct aw_token {
    uint32_t refs, cancelled;
    uint32_t lock; /* of the tree; only used in the root */
    aw_token *root, *parent;
    aw_token *first_child, *prev, *next; /* under the lock, as are those below */
    aw_token *to_wake;                   /* next in the list of a cancel */
    aw__waiters waiters;
    const aw_allocator *allocator;
};

/* ---- The tree -------------------------------------------------------------------------------- */

static aw_token *token_alloc(void) {
    const aw_allocator *a = aw_get_allocator();
    aw_token *t = aw__alloc(a, sizeof *t);
    if (t) *t = (aw_token){.refs = 1, .root = t, .allocator = a};
    return t;
}

aw_token *aw_token_new(void) {
    return token_alloc();
}

aw_token *aw_token_child(aw_token *parent) {
    aw_token *t = token_alloc();
    if (!t) return NULL;
    t->root = parent->root;
    t->parent = aw_token_keep(parent);
    aw__lock(&t->root->lock);
    t->cancelled = parent->cancelled;
    aw__list_insert_head(&parent->first_child, t);
    aw__unlock(&t->root->lock);
    return t;
}

aw_token *aw_token_keep(aw_token *t) {
    aw__fetch_add_relaxed(&t->refs, 1u);
    return t;
}

/* Under the lock, for a token in the tree. False: it is about to be freed. */
static bool token_ref_if_alive(aw_token *t) {
    uint32_t refs = aw__load_relaxed(&t->refs);
    while (refs)
        if (aw__cas(&t->refs, &refs, refs + 1)) return true;
    return false;
}

static void unlink_from(aw_token *parent, aw_token *t) {
    aw__lock(&t->root->lock);
    aw__list_remove(&parent->first_child, t);
    aw__unlock(&t->root->lock);
}

void aw_token_drop(aw_token *t) {
    while (t && aw__fetch_sub(&t->refs, 1u) == 1) {
        aw_token *parent = t->parent;
        if (parent) unlink_from(parent, t);
        aw__free(t->allocator, t, sizeof *t);
        t = parent;
    }
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

bool aw_token_is_cancelled(const aw_token *t) {
    return aw__load_acquire(&t->cancelled);
}

/* Under the lock: marks a token. False: it was marked before, and so were its descendants. */
static bool mark(aw_token *t, aw_token **list) {
    if (t->cancelled) return false;
    aw__store_release(&t->cancelled, 1u);
    if (t->waiters.first && token_ref_if_alive(t)) {
        t->to_wake = *list;
        *list = t;
    }
    return true;
}

/* Under the lock: marks the subtree of `top`, without recursion. Returns those with waiters. */
static aw_token *mark_all(aw_token *top) {
    aw_token *list = NULL, *t = top;
    for (bool down = mark(top, &list); t != top || down;) {
        if (down && t->first_child)
            t = t->first_child;
        else if (t == top)
            break;
        else if (t->next)
            t = t->next;
        else {
            t = t->parent;
            down = false;
            continue;
        }
        down = mark(t, &list);
    }
    return list;
}

void aw_token_cancel(aw_token *t) {
    static const uint32_t all = 1; /* all waiters are of generation 0 */
    uint32_t *lock = &t->root->lock;
    aw__lock(lock);
    aw_token *list = mark_all(t);
    aw__unlock(lock);
    for (aw_token *next; list; list = next) {
        next = list->to_wake;
        aw__lock(lock);
        aw__end_older_and_unlock(lock, &list->waiters, &all, 0);
        aw_token_drop(list);
    }
}

/* ---- The future ------------------------------------------------------------------------------ */

static int token_try(aw__waiter *w) {
    return ((aw_token_future *)(void *)w)->token->cancelled ? 0 : -EAGAIN;
}

static aw_poll token_poll(aw_future *self, aw_cx *cx) {
    aw_token_future *f = (aw_token_future *)self;
    aw_token *t = f->token;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w) && !aw_cx_exhausted(cx) && aw_token_is_cancelled(t)) {
        aw_cx_spend(cx);
        return AW_READY;
    }
    return aw__wait_poll(w, &t->root->lock, &t->waiters, token_try, cx);
}

static aw_poll token_cancel(aw_future *self, aw_cx *cx) {
    aw_token_future *f = (aw_token_future *)self;
    aw_token *t = f->token;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&t->root->lock);
    bool dequeued = aw__wait_leave_busy(&t->root->lock, &t->waiters, w);
    aw__unlock(&t->root->lock);
    return aw__wait_cancelled(w, dequeued, cx);
}

const aw_future_type aw_token_cancelled_type = {
    AW_TYPE_OF(aw_token_future, "token_cancelled"),
    .flags = AW_OUT_ERRNO,
    .poll = token_poll,
    .cancel = token_cancel,
};
