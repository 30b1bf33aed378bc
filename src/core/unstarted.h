/* SPDX-License-Identifier: MIT
 *
 * Giving up a future that will not be run: a spawn that failed, a box without memory. */
#ifndef AW_CORE_UNSTARTED_H
#define AW_CORE_UNSTARTED_H

#include <awake/future.h>

/* Cancel it, which releases what its arguments own. One that was never polled is gone at once; so must
 * be one that was polled before (in a box), because nobody is there to wait for it. */
void aw__cancel_unstarted(aw_future *f);

#endif
