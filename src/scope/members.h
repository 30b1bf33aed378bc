/* SPDX-License-Identifier: MIT
 *
 * Lists of members (runtime/member.h), under the lock of who has them. */
#ifndef AW_SCOPE_MEMBERS_H
#define AW_SCOPE_MEMBERS_H

#include "core/misuse.h"
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

static inline void aw__members_add_first(aw__members *l, aw__member *m) {
    m->prev = NULL;
    m->next = l->first;
    if (l->first)
        l->first->prev = m;
    else
        l->last = m;
    l->first = m;
}

/* Their names, as many as there is space for. Their frames are not looked at: they run. */
static inline void aw__members_name(aw__text *text, const aw__members *lists, unsigned count) {
    const char *between = ": ";
    for (unsigned i = 0; i < count; i++)
        for (const aw__member *m = lists[i].first; m && text->length < text->size; m = m->next) {
            aw__text_add(text, "%stask %llu '%s'", between,
                         (unsigned long long)aw__task_id(m->task), aw__task_name(m->task));
            between = ", ";
        }
}

#endif
