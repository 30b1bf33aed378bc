/* SPDX-License-Identifier: MIT
 *
 * aw_parker: a parked thread as a waker. Reference counted, because clones of its waker may outlive
 * the thread's own handle. */
#include <awake/waker.h>

#include "base/allocate.h"
#include "os/park.h"

struct aw_parker {
    aw_counted counted;
    uint32_t word;
    const aw_allocator *allocator;
};

static void parker_wake(aw_counted *c) {
    aw__os_unpark(&((aw_parker *)c)->word);
}

static void parker_release(aw_counted *c) {
    aw__free(((aw_parker *)c)->allocator, c, sizeof(aw_parker));
}

aw_parker *aw_parker_new(void) {
    const aw_allocator *a = aw_get_allocator();
    aw_parker *p = aw__alloc(a, sizeof *p);
    if (!p) return NULL;
    aw_counted_init(&p->counted, parker_wake, parker_release);
    p->word = 0;
    p->allocator = a;
    return p;
}

void aw_parker_free(aw_parker *p) {
    if (p) aw_counted_drop(&p->counted);
}

aw_waker aw_parker_waker(aw_parker *p) {
    return aw_counted_waker(&p->counted);
}

void aw_parker_park(aw_parker *p) {
    aw__os_park(&p->word, UINT64_MAX);
}

bool aw_parker_park_until(aw_parker *p, uint64_t deadline) {
    return aw__os_park(&p->word, deadline);
}

void aw_parker_unpark(aw_parker *p) {
    aw__os_unpark(&p->word);
}
