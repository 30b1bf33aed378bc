/* SPDX-License-Identifier: MIT
 *
 * A future in its own allocation. */
#include <awake/box.h>

#include <errno.h>
#include <string.h>

#include "base/allocate.h"
#include "base/misuse.h"
#include "context/context.h"
#include "future/unstarted.h"

static void box_free_inner(aw_box *b) {
    aw__free(b->allocator, b->inner, b->size);
    b->inner = NULL;
}

aw_box aw_box_future(aw_future *f, size_t size) {
    const aw_allocator *a = aw__allocator_for(NULL);
    aw_box b = {.future = AW_FUTURE_INIT(&aw_box_type), .size = size, .allocator = a};
    b.inner = aw__alloc(a, size);
    if (b.inner) {
        memcpy(b.inner, f, size);
    } else {
        aw__cancel_unstarted(f);
        b.out = -ENOMEM;
    }
    return b;
}

static aw_poll box_poll(aw_future *self, aw_cx *cx) {
    aw_box *b = (aw_box *)self;
    return b->inner ? aw_future_poll(b->inner, cx) : AW_READY;
}

static aw_poll box_cancel(aw_future *self, aw_cx *cx) {
    aw_box *b = (aw_box *)self;
    if (!b->inner) return AW_CANCELLED;
    aw_poll r = aw_future_cancel(b->inner, cx);
    if (r == AW_CANCELLED) box_free_inner(b);
    return r;
}

static void box_discard(aw_future *self) {
    aw_box *b = (aw_box *)self;
    if (!b->inner) return;
    aw_future_discard(b->inner);
    box_free_inner(b);
}

static const aw_future *box_child(const aw_future *self, size_t i) {
    return i == 0 ? ((const aw_box *)self)->inner : NULL;
}

const aw_future_type aw_box_type = {
    AW_TYPE_OF(aw_box, "box"), .flags = AW_UNPIN | AW_OUT_ERRNO, .poll = box_poll,
    .cancel = box_cancel,      .discard = box_discard,           .child = box_child,
};

void *aw__box_inner(const aw_box *b, size_t size) {
    if (!b->inner) aw__misuse("the box is empty: there was no memory, or its output was taken");
    if (b->size != size)
        aw__misuse("the box holds a '%s' of %zu bytes, not a future of %zu", b->inner->type->name,
                   b->size, size);
    return b->inner;
}

void aw_box_free(aw_box *b) {
    if (!b->inner) return;
    if (!aw_future_ended(b->inner)) {
        if (aw_future_started(b->inner))
            aw__misuse("a box with a running '%s' was freed: cancel it first",
                       b->inner->type->name);
        aw__cancel_unstarted(b->inner);
    }
    box_free_inner(b);
}
