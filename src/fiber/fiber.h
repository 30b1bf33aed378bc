/* SPDX-License-Identifier: MIT
 *
 * Internal side of awake/fiber.h: what a fiber that has been entered keeps, at the top of its stack.
 *
 * A fiber is a future. Its poll switches to its stack; an await that has to wait switches back, and the
 * poll returns. While it waits, the poll of the fiber polls the awaited child on the stack of whoever
 * polls, and enters the fiber again only when the child has ended: a spurious wake costs no switch. */
#ifndef AW_FIBER_FIBER_H
#define AW_FIBER_FIBER_H

#include <awake/fiber.h>

#include "fiber/annotate.h"
#include "fiber/stack.h"

/* What every fiber's frame begins with. */
struct __attribute__((may_alias)) aw__fiber_frame {
    aw_future future;
    aw__fiber *aw_fiber;
    uint32_t stack_size;
};

/* What a fiber that is not running waits for. */
enum aw__fiber_wait {
    AW__WAIT_CHILD,
    AW__WAIT_YIELD,   /* the next call */
    AW__WAIT_REFUSED, /* the next cancel: an await was refused */
    AW__WAIT_FAILING  /* the cancel that follows aw_fiber_fail */
};

/* What a yield and the poll after it read comes first, and is one line of the cache. */
struct aw__fiber {
    aw__side inside, outside;
    struct aw__fiber_frame *frame;
    aw__fiber *outer;         /* the fiber on whose stack it is being polled, or NULL */
    aw_future *child;         /* awaited, and not ended yet; NULL while the body runs */
    aw_cx *cx;                /* of the running poll; NULL while it waits */
    aw__stacks *pool;         /* of the thread on which it stays */
    int error;                /* its errno, while it waits */
    enum aw__fiber_wait wait; /* for what */

    const char *file; /* of the last await */
    int line;
    uint32_t shields;
    uint32_t refused; /* awaits since it was cancelled */
    uint32_t opened;  /* atomic: what lies on its stack and is open: core/opened.h */
    bool measured;    /* its stack was painted */
    bool cut;         /* an await was cancelled: so is the whole */
    aw__stack *stack;
    uint64_t place; /* among those of its runtime: see below; 0: none */
};

/* How many fibers of a runtime may have stacks; the runtime counts. Taking a place is refused with false. It is
 * given back to the runtime that the fiber ends in: when that is another than it began in, to none, because that
 * one may be gone. */
bool aw__stack_place_take(aw_runtime *rt, uint64_t *place);
void aw__stack_place_give(aw_runtime *rt, uint64_t place);

/* The fiber whose stack this thread is on. */
extern _Thread_local aw__fiber *aw__fiber_here __attribute__((tls_model("initial-exec")));

#endif
