/* SPDX-License-Identifier: MIT
 *
 * Internal side of awake/fiber.h: the state of a fiber that has been entered. It lies at the top of
 * the fiber's stack.
 *
 * A fiber is a future. Its poll switches to its stack; an await that has to wait switches back, and
 * the poll returns. While the fiber waits, its poll polls the awaited child on the stack of the
 * caller. It enters the fiber again only when the child has ended, so a spurious wake costs no
 * switch. */
#ifndef AW_FIBER_FIBER_STATE_H
#define AW_FIBER_FIBER_STATE_H

#include <awake/fiber.h>

#include "fiber/annotate.h"
#include "fiber/stack.h"

/* The head of every fiber's frame. */
struct __attribute__((may_alias)) aw__fiber_frame {
    aw_future future;
    aw__fiber *aw_fiber;
    uint32_t stack_size;
};

/* What a suspended fiber waits for. */
enum aw__fiber_wait {
    AW__WAIT_CHILD,
    AW__WAIT_YIELD,   /* the next poll or cancel */
    AW__WAIT_REFUSED, /* the next cancel: its await returns -ECANCELED then */
    AW__WAIT_FAILING  /* the cancel that follows aw_fiber_fail */
};

/* The members that a yield and the next poll read come first, in one cache line. */
struct aw__fiber {
    aw__side inside, outside;
    struct aw__fiber_frame *frame;
    aw__fiber *outer;         /* this one is polled on the stack of that fiber; or NULL */
    aw_future *child;         /* the awaited future; NULL while the body runs */
    aw_cx *cx;                /* of the current poll; NULL while suspended */
    aw__stacks *pool;         /* of the thread that it stays on */
    int error;                /* its errno, while suspended */
    enum aw__fiber_wait wait; /* while suspended */

    const char *file; /* of the last await */
    int line;
    uint32_t shields;
    uint32_t cancelled_awaits; /* since the fiber was cancelled */
    uint32_t borrows;          /* atomic: open objects on its stack: see future/borrow_check.h */
    bool measured;             /* its stack is painted, to find its high-water mark */
    bool await_cancelled;      /* an await was cancelled, so the fiber ends cancelled */
    aw__stack *stack;
    uint64_t stack_permit; /* see aw__stack_permit_take; 0: none */
};

/* The thread of `f` is about to block (aw_block_in_place). True: the body of `f` made the call;
 * until the caller sets `child` to NULL again, an await of the body is misuse. False: there is no
 * fiber, or the poll of its child made the call. */
bool aw__fiber_blocks(aw__fiber *f);

/* The fiber that this thread runs, on its stack; NULL: none. */
extern _Thread_local aw__fiber *aw__fiber_current __attribute__((tls_model("initial-exec")));

#endif
