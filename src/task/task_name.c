/* SPDX-License-Identifier: MIT */
#include "task/task_name.h"

#include <inttypes.h>
#include <stdio.h>

#include "task/locals.h"

void aw__name_spawned(char *buf, size_t size, const aw__task *t) {
    const aw_future *f = aw__task_frame((aw__task *)(uintptr_t)t);
    const aw_location *location = aw__location_of(t);
    snprintf(buf, size, "task %" PRIu64 " '%s' (spawned at %s:%d)", aw__task_number(t),
             location->name ? location->name : f->type->name, location->file, location->line);
}

void aw__name_task(char *buf, size_t size, const aw__task *t) {
    if (t->flags & AW__MAIN)
        snprintf(buf, size, "the main future");
    else
        aw__name_spawned(buf, size, t);
}
