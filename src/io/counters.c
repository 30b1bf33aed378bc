/* SPDX-License-Identifier: MIT
 *
 * The I/O counters of a runtime: the sums over its drivers. */
#include <string.h>

#include "context/context.h"
#include "io/thread_io.h"

static void counters_add_driver(aw_io_counters *sum, const aw__driver *d) {
    if (!d) return;
    sum->operations += aw__load_relaxed(&d->counters.operations);
    sum->waits += aw__load_relaxed(&d->counters.waits);
    sum->events += aw__load_relaxed(&d->counters.events);
    sum->calls += aw__load_relaxed(&d->counters.calls);
}

static void counters_add_thread_io(aw_io_counters *sum, const aw__thread_io *thread_io) {
    counters_add_driver(sum, aw__load_acquire(&thread_io->driver));
    counters_add_driver(sum, aw__load_acquire(&thread_io->shared));
}

void aw_runtime_io_sized(const aw_runtime *rt, aw_io_counters *counters, size_t size) {
    const aw__runtime_base *b = aw__base(rt);
    aw_io_counters sum = {.driver = aw__load_acquire(&b->driver_type)->name,
                          .fallback = aw__load_relaxed(&b->driver_fallback)};
    const aw__thread_io *io;
    for (uint32_t n = 0; (io = b->sched->nth_thread_io(rt, n)); n++)
        counters_add_thread_io(&sum, io);
    memset(counters, 0, size);
    memcpy(counters, &sum, size < sizeof sum ? size : sizeof sum);
}
