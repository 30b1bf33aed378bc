/* SPDX-License-Identifier: MIT
 *
 * A lock-free stack onto which any thread pushes, and which one consumer takes whole. The head is
 * the newest node, or NULL; each node points to the next older one. The consumer reverses what it
 * has taken: first in, first out.
 *
 *   1. A push is a compare-and-swap of the head with at least release order: the node is visible to
 *      the consumer. The stacks write their own pushes, because their heads have special values:
 *      task/inbox.h, sched/multi/inject.h, sched/multi/pinned.h.
 *   2. A take is one exchange (acquire). No node is ever taken alone, so there is no ABA problem: a
 *      push may find a node at the head again that has been taken in between.
 *   3. Between its push and its take, a node's link belongs to the stack. After the take it belongs
 *      to the consumer. */
#ifndef AW_BASE_MPSC_STACK_H
#define AW_BASE_MPSC_STACK_H

#include <stddef.h>

#include "base/atomic.h"

/* Consumer only: empties the stack and returns its nodes, oldest first. `link` is the member that
 * links them. */
#define aw__mpsc_take(head, link)                                                                  \
    __extension__({                                                                                \
        __typeof__(*(head)) aw__newest = aw__exchange(head, (__typeof__(*(head)))NULL);            \
        aw__mpsc_reverse(aw__newest, link);                                                        \
    })

/* Reverses a list that ends in NULL and returns its new first node. `list` is a variable, which
 * keeps its value. */
#define aw__mpsc_reverse(list, link)                                                               \
    __extension__({                                                                                \
        __typeof__(list) aw__node = (list), aw__reversed = NULL;                                   \
        while (aw__node) {                                                                         \
            __typeof__(list) aw__next = aw__node->link;                                            \
            aw__node->link = aw__reversed;                                                         \
            aw__reversed = aw__node;                                                               \
            aw__node = aw__next;                                                                   \
        }                                                                                          \
        aw__reversed;                                                                              \
    })

#endif
