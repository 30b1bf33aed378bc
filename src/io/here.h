/* SPDX-License-Identifier: MIT
 *
 * The driver for a descriptor that has to wait, in this poll. */
#ifndef AW_IO_HERE_H
#define AW_IO_HERE_H

#include <awake/future.h>

#include "driver/driver.h"

/* That of this worker, or of the runtime, for the thread that runs it; for others one that they may enter, too. It is
 * made now if there is none. 0; -ENXIO without a runtime, with a message; -EOWNERDEAD in the child of a fork;
 * -ENOTSUP where the seam has a way of its own to sleep; -EACCES where the kind that the runtime uses is forbidden by
 * now; -ENOMEM, -EMFILE. */
int aw__driver_here(const aw_cx *cx, aw__driver **d);

/* Whether that one takes operations and completes them. */
bool aw__completes_here(const aw_cx *cx);
/* Whether this thread will look into it by itself. */
bool aw__driver_is_own(const aw__driver *d);
/* Whether nobody is sure to look into it soon: not this thread, and there is no monitor. By who keeps it. */
bool aw__driver_is_left(const aw__driver *d);

#endif
