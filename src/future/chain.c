/* SPDX-License-Identifier: MIT
 *
 * The await chain of a future, as text. No allocation. */
#include "future/chain.h"

#include <inttypes.h>

#include <awake/async.h>

enum { CHAIN_MAX_DEPTH = 64, CHAIN_MAX_CHILDREN = 16 };

void aw__text_chain(aw__text *t, const aw_future *f, int depth) {
    const aw_future_type *type = f->type;
    aw__text_add(t, "%*s%s", depth * 2, "", type->name);
    if (aw__life(f) == AW__FRESH) {
        aw__text_add(t, ", not started\n");
        return;
    }
    if (type->file) aw__text_add(t, " at %s:%" PRIu32, type->file, f->state & AW__LINE_MASK);
    if (type->describe) {
        char what[128] = "";
        type->describe(f, what, sizeof what);
        if (*what) aw__text_add(t, ": %s", what);
    }
    if (aw_future_cancelling(f)) aw__text_add(t, " (being cancelled)");
    aw__text_add(t, "\n");
    if (!type->child) return;
    if (depth > CHAIN_MAX_DEPTH) {
        aw__text_add(t, "%*s(deeper)\n", depth * 2 + 2, "");
        return;
    }
    const aw_future *child;
    for (size_t i = 0; (child = type->child(f, i)); i++) {
        if (i == CHAIN_MAX_CHILDREN) {
            aw__text_add(t, "%*s(and more)\n", depth * 2 + 2, "");
            return;
        }
        aw__text_chain(t, child, depth + 1);
    }
}

int aw_future_describe(const aw_future *f, char *buf, size_t size) {
    aw__text t = {buf, size, 0};
    if (size) buf[0] = 0;
    aw__text_chain(&t, f, 0);
    return (int)t.length;
}
