/* SPDX-License-Identifier: MIT
 *
 * What the drivers of a runtime have counted. */
#include <string.h>

#include "workers/pool.h"

static void add(aw_io_counters *sum, const aw__driver *d) {
    if (!d) return;
    sum->operations += aw__load_relaxed(&d->counters.operations);
    sum->waits += aw__load_relaxed(&d->counters.waits);
    sum->events += aw__load_relaxed(&d->counters.events);
    sum->calls += aw__load_relaxed(&d->counters.calls);
}

static void add_all(aw_io_counters *sum, const aw__place *place) {
    add(sum, aw__load_acquire(&place->driver));
    add(sum, aw__load_acquire(&place->beside));
}

void aw_runtime_io_sized(const aw_runtime *rt, aw_io_counters *counters, size_t size) {
    aw_io_counters sum = {.driver = aw__load_acquire(&rt->driver_type)->name,
                          .fallback = aw__load_relaxed(&rt->driver_fallback)};
    add_all(&sum, &rt->place);
    for (uint32_t i = 0; rt->pool && i < rt->pool->count; i++)
        add_all(&sum, &rt->pool->workers[i].place);
    memset(counters, 0, size);
    memcpy(counters, &sum, size < sizeof sum ? size : sizeof sum);
}
