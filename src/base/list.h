/* SPDX-License-Identifier: MIT
 *
 * Intrusive doubly linked lists, for any struct that has members `next` and `prev` of its own
 * pointer type. The two shapes have the names of <sys/queue.h>:
 *
 *   list     a pointer to the first node. Insert at the head, remove.
 *   tailq    a struct with members `first` and `last`. Insert anywhere, remove.
 *
 * An empty list is NULL; an empty tailq is {NULL, NULL}. The ends of both have NULL as `prev` and
 * `next`. To iterate, follow `next`.
 *
 * The caller holds the lock that guards the list, or owns the list. A node is in one list at a
 * time; a remove must name the list that it is in. A remove leaves the links of the node as they
 * are. Arguments may be evaluated more than once.
 *
 * If other threads load the pointer to the first node without the lock, use the variants `_with`:
 * all their writes to that pointer are made by `store`, such as aw__store_seq. */
#ifndef AW_BASE_LIST_H
#define AW_BASE_LIST_H

#include <stddef.h>

#define aw__store_plain(p, v) (*(p) = (v))

/* ---- list ------------------------------------------------------------------------------------ */

#define aw__list_insert_head(head, node) aw__list_insert_head_with(aw__store_plain, head, node)
#define aw__list_remove(head, node)      aw__list_remove_with(aw__store_plain, head, node)

#define aw__list_insert_head_with(store, head, node)                                               \
    do {                                                                                           \
        __typeof__(node) aw__node = (node), aw__next = *(head);                                    \
        aw__node->prev = NULL;                                                                     \
        aw__node->next = aw__next;                                                                 \
        if (aw__next) aw__next->prev = aw__node;                                                   \
        store((head), aw__node);                                                                   \
    } while (0)

#define aw__list_remove_with(store, head, node)                                                    \
    do {                                                                                           \
        __typeof__(node) aw__prev = (node)->prev, aw__next = (node)->next;                         \
        if (aw__next) aw__next->prev = aw__prev;                                                   \
        if (aw__prev)                                                                              \
            aw__prev->next = aw__next;                                                             \
        else                                                                                       \
            store((head), aw__next);                                                               \
    } while (0)

/* ---- tailq ----------------------------------------------------------------------------------- */

#define aw__tailq_insert_head(q, node) aw__tailq_link(aw__store_plain, q, NULL, (q)->first, node)
#define aw__tailq_insert_tail(q, node) aw__tailq_insert_tail_with(aw__store_plain, q, node)
#define aw__tailq_remove(q, node)      aw__tailq_remove_with(aw__store_plain, q, node)
/* `other` is NULL: at the end. */
#define aw__tailq_insert_before(q, other, node)                                                    \
    aw__tailq_link(aw__store_plain, q, (other) ? (other)->prev : (q)->last, other, node)

#define aw__tailq_insert_tail_with(store, q, node) aw__tailq_link(store, q, (q)->last, NULL, node)

#define aw__tailq_remove_with(store, q, node)                                                      \
    do {                                                                                           \
        __typeof__(node) aw__prev = (node)->prev, aw__next = (node)->next;                         \
        if (aw__prev)                                                                              \
            aw__prev->next = aw__next;                                                             \
        else                                                                                       \
            store(&(q)->first, aw__next);                                                          \
        if (aw__next)                                                                              \
            aw__next->prev = aw__prev;                                                             \
        else                                                                                       \
            (q)->last = aw__prev;                                                                  \
    } while (0)

/* Inserts a node between two neighbours; NULL: there is none. */
#define aw__tailq_link(store, q, before, after, node)                                              \
    do {                                                                                           \
        __typeof__(node) aw__node = (node), aw__prev = (before), aw__next = (after);               \
        aw__node->prev = aw__prev;                                                                 \
        aw__node->next = aw__next;                                                                 \
        if (aw__prev)                                                                              \
            aw__prev->next = aw__node;                                                             \
        else                                                                                       \
            store(&(q)->first, aw__node);                                                          \
        if (aw__next)                                                                              \
            aw__next->prev = aw__node;                                                             \
        else                                                                                       \
            (q)->last = aw__node;                                                                  \
    } while (0)

#endif
