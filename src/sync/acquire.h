/* SPDX-License-Identifier: MIT
 *
 * The functions of the semaphore's future, for locks that are semaphores under another name. */
#ifndef AW_SYNC_ACQUIRE_H
#define AW_SYNC_ACQUIRE_H

#include <awake/semaphore.h>

aw_poll aw__acquire_poll(aw_future *self, aw_cx *cx);
aw_poll aw__acquire_cancel(aw_future *self, aw_cx *cx);
void aw__acquire_discard(aw_future *self);

#endif
