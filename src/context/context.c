/* SPDX-License-Identifier: MIT
 *
 * The thread-local context, and what is reached through the current runtime: log, allocator, clock,
 * permits for stacks. */
#include "context/context.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/allocate.h"
#include "os/park.h"

_Thread_local struct aw__context aw__context;

aw_runtime *aw_runtime_current(void) {
    if (aw__context.runtime) return aw__context.runtime;
    aw_runtime *rt = aw__context.entered;
    return rt && aw__rt_forked(rt) ? NULL : rt;
}

aw_runtime *aw_cx_runtime(const aw_cx *cx) {
    return cx->runtime ? cx->runtime : aw_runtime_current();
}

const aw_allocator *aw__allocator_for(const aw_runtime *rt) {
    if (!rt) rt = aw_runtime_current();
    return rt ? aw__base(rt)->allocator : aw_get_allocator();
}

void aw__rt_log(const aw_runtime *rt, aw_log_level level, const char *format, ...) {
    const aw__runtime_base *b = rt ? aw__base(rt) : NULL;
    char message[4096];
    int n = b && b->name ? snprintf(message, 256, "runtime '%s': ", b->name) : 0;
    n = n < 256 ? n : 255;
    va_list args;
    va_start(args, format);
    vsnprintf(message + n, sizeof message - (size_t)n, format, args);
    va_end(args);
    if (b && b->log)
        b->log(b->log_data, level, message);
    else
        aw_log(level, "%s", message);
}

/* ---- The clock ------------------------------------------------------------------------------- */

uint64_t aw__system_now(void *data) {
    (void)data;
    return aw__os_now();
}

bool aw__rt_has_system_clock(const aw_runtime *rt) {
    return aw__base(rt)->seam.now == aw__system_now;
}

/* ---- Permits for stacks ---------------------------------------------------------------------- */

/* The permit is the runtime's number: a fiber may end in another runtime than it began in. */
bool aw__stack_permit_take(aw_runtime *rt, uint64_t *permit) {
    *permit = 0;
    if (!rt || !aw__base(rt)->stacks.max) return true;
    *permit = aw__base(rt)->number;
    return aw__limit_take(&aw__base(rt)->stacks);
}

void aw__stack_permit_give(aw_runtime *rt, uint64_t permit) {
    if (permit && rt && aw__base(rt)->number == permit) aw__limit_give(&aw__base(rt)->stacks);
}
