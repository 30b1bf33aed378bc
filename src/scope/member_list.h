/* SPDX-License-Identifier: MIT
 *
 * Lists of members (task/member.h): tailqs of base/list.h, under the lock of the scope or join set
 * that owns them. */
#ifndef AW_SCOPE_MEMBER_LIST_H
#define AW_SCOPE_MEMBER_LIST_H

#include "base/list.h"
#include "base/text.h"
#include "task/member.h"

/* Appends the names, as many as fit. Frames are not read: the tasks may be running. */
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
