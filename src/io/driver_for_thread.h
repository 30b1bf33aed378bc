/* SPDX-License-Identifier: MIT
 *
 * Which driver a descriptor waits with, in this poll. */
#ifndef AW_IO_DRIVER_FOR_THREAD_H
#define AW_IO_DRIVER_FOR_THREAD_H

#include <awake/future.h>

#include "context/context.h"
#include "io/thread_io.h"

/* The driver of this worker, or of the runtime for the thread that runs it. Other threads get a
 * driver that they may enter. It is opened now if there is none. 0; -ENXIO: no runtime (logged);
 * -EOWNERDEAD: in a forked child; -ENOTSUP: the seam sleeps in a way of its own; -EACCES: the
 * runtime uses io_uring, which has been forbidden since; -ESHUTDOWN: the runtime has
 * ended; -ENOMEM, -EMFILE. */
int aw__driver_for_thread(const aw_cx *cx, aw__driver **d);

/* The backend of the runtime's drivers. Decided at the first request: the probe of io_uring costs a
 * few system calls. */
const aw__driver_type *aw__driver_type_probe(aw_runtime *rt);
static inline const aw__driver_type *aw__driver_type_of(aw_runtime *rt) {
    const aw__driver_type *type = aw__load_acquire(&aw__base(rt)->driver_type);
    bool known = type != &aw__uring_driver || aw__load_relaxed(&aw__base(rt)->driver_known);
    return AW__LIKELY(known) ? type : aw__driver_type_probe(rt);
}

/* Whether the driver of this thread submits operations to the kernel (`submit`). */
static inline bool aw__thread_completes(const aw_cx *cx) {
    aw_runtime *rt = cx->runtime ? cx->runtime : aw_runtime_current();
    return rt && !aw__base(rt)->seam.park && !aw__rt_forked(rt) && aw__driver_type_of(rt)->submit;
}
/* Whether this thread polls the driver by itself. */
static inline bool aw__driver_is_mine(const aw__driver *d) {
    return aw__context.thread_io && aw__context.thread_io->driver == d;
}
/* Whether no thread is sure to poll the driver soon: this one does not, and there is no monitor.
 * The caller holds a reference. */
bool aw__driver_is_unattended(const aw__driver *d);

#endif
