/* SPDX-License-Identifier: MIT
 *
 * What other locks use of the semaphore: its future under a name of their own. */
#ifndef AW_SYNC_SEMAPHORE_H
#define AW_SYNC_SEMAPHORE_H

#include <awake/semaphore.h>

aw_poll aw__acquire_poll(aw_future *self, aw_cx *cx);
aw_poll aw__acquire_cancel(aw_future *self, aw_cx *cx);
void aw__acquire_discard(aw_future *self);

#endif
