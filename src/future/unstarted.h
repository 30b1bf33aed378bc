/* SPDX-License-Identifier: MIT
 *
 * Drops a future that will not run, because a spawn failed or there was no memory for its box. */
#ifndef AW_FUTURE_UNSTARTED_H
#define AW_FUTURE_UNSTARTED_H

#include <awake/future.h>

/* Cancels the future, which releases what its arguments own. The cancel of a future that was never
 * polled completes at once. So must that of a future that was polled before (in a box), because no
 * task is left to wait for it: otherwise it is misuse. */
void aw__cancel_unstarted(aw_future *f);

#endif
