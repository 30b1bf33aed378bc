/* SPDX-License-Identifier: MIT
 *
 * Cancel tokens. A tree has one short lock, in its root, for its links and the queues of all its tokens. A child
 * keeps its parent, so that memory and the way to the root are there as long as anybody below needs them. Without the
 * lock are only the counting of references, and the look at `cancelled`, which is stored with release and then stays.
 *
 * To cancel is done in two steps. Under the lock everything below is marked, so that nobody begins to wait there and
 * who is born there is cancelled; those with waiters are kept, and put into a list. Then their waiters are woken, one token
 * after the other. What is marked already has been, or is being, served by another. */
#include <awake/token.h>

#include "core/alloc.h"
#include "sync/waiters.h"

struct aw_token {
    uint32_t refs, cancelled;
    uint32_t lock; /* of the tree: in the root */
    aw_token *root, *parent;
    aw_token *first_child, *prev, *next; /* under the lock, like all that follows */
    aw_token *to_wake;                   /* the next in the list of a cancel */
    aw__waiters waiters;
    const aw_allocator *allocator;
};

/* ---- The tree --------------------------------------------------------------------------------- */

static aw_token *make(void) {
    const aw_allocator *a = aw_get_allocator();
    aw_token *t = aw__alloc(a, sizeof *t);
    if (t) *t = (aw_token){.refs = 1, .root = t, .allocator = a};
    return t;
}

aw_token *aw_token_new(void) {
    return make();
}

aw_token *aw_token_child(aw_token *parent) {
    aw_token *t = make();
    if (!t) return NULL;
    t->root = parent->root;
    t->parent = aw_token_keep(parent);
    aw__lock(&t->root->lock);
    t->cancelled = parent->cancelled;
    t->next = parent->first_child;
    if (t->next) t->next->prev = t;
    parent->first_child = t;
    aw__unlock(&t->root->lock);
    return t;
}

aw_token *aw_token_keep(aw_token *t) {
    aw__fetch_add_relaxed(&t->refs, 1u);
    return t;
}

/* Of one that is in the tree, under the lock: false when it is about to be freed. */
static bool keep_if_alive(aw_token *t) {
    uint32_t refs = aw__load_relaxed(&t->refs);
    while (refs)
        if (aw__cas(&t->refs, &refs, refs + 1)) return true;
    return false;
}

static void unlink_from(aw_token *parent, aw_token *t) {
    aw__lock(&t->root->lock);
    if (t->prev)
        t->prev->next = t->next;
    else
        parent->first_child = t->next;
    if (t->next) t->next->prev = t->prev;
    aw__unlock(&t->root->lock);
}

void aw_token_drop(aw_token *t) {
    while (t && aw__fetch_sub(&t->refs, 1u) == 1) {
        aw_token *parent = t->parent;
        if (parent) unlink_from(parent, t);
        aw__release(t->allocator, t, sizeof *t);
        t = parent;
    }
}

/* ---- Cancelling ------------------------------------------------------------------------------- */

bool aw_token_is_cancelled(const aw_token *t) {
    return aw__load_acquire(&t->cancelled);
}

/* Under the lock: mark it; those below are to be marked, too, if they were not. */
static bool mark(aw_token *t, aw_token **list) {
    if (t->cancelled) return false;
    aw__store_release(&t->cancelled, 1u);
    if (t->waiters.first && keep_if_alive(t)) {
        t->to_wake = *list;
        *list = t;
    }
    return true;
}

/* Under the lock: all of the tree below `top`, without recursion. */
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
    static const uint32_t all = 1;
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

/* ---- The future ------------------------------------------------------------------------------- */

static int look(aw__waiter *w) {
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
    return aw__wait_poll(w, &t->root->lock, &t->waiters, look, cx);
}

static aw_poll token_cancel(aw_future *self, aw_cx *cx) {
    aw_token_future *f = (aw_token_future *)self;
    aw_token *t = f->token;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&t->root->lock);
    bool left = aw__wait_leave_busy(&t->root->lock, &t->waiters, w);
    aw__unlock(&t->root->lock);
    return aw__wait_cancelled(w, left, cx);
}

const aw_future_type aw_token_cancelled_type = {
    AW_TYPE_OF(aw_token_future, "token_cancelled"),
    .flags = AW_OUT_ERRNO,
    .poll = token_poll,
    .cancel = token_cancel,
};
