/* SPDX-License-Identifier: MIT
 *
 * Lists of members (runtime/member.h), under the lock of who has them. */
#ifndef AW_SCOPE_MEMBERS_H
#define AW_SCOPE_MEMBERS_H

#include <awake/scope.h>

#include "runtime/member.h"

static inline void aw__members_add(aw__members *l, aw__member *m) {
    m->prev = l->last;
    m->next = NULL;
    if (l->last)
        l->last->next = m;
    else
        l->first = m;
    l->last = m;
}

static inline void aw__members_remove(aw__members *l, aw__member *m) {
    if (m->prev)
        m->prev->next = m->next;
    else
        l->first = m->next;
    if (m->next)
        m->next->prev = m->prev;
    else
        l->last = m->prev;
    m->next = m->prev = NULL;
}

#endif
