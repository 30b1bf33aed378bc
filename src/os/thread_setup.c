/* SPDX-License-Identifier: MIT */
#include "os/thread_setup.h"

#include <stdio.h>

#include "os/thread.h"

static void name_thread(const aw__threads *all, aw_thread_kind kind, uint32_t index) {
    char suffix[16] = "";
    switch (kind) {
    case AW_THREAD_WORKER: snprintf(suffix, sizeof suffix, "-%u", index); break;
    case AW_THREAD_MONITOR: snprintf(suffix, sizeof suffix, "-monitor"); break;
    case AW_THREAD_BLOCKING: snprintf(suffix, sizeof suffix, "-call-%u", index % 10000); break;
    }
    aw__os_thread_name(all->name, suffix);
}

/* A thread inherits the processors of its creator, which may be a bound worker. */
static int bind_thread(const aw__threads *all, aw_thread_kind kind, uint32_t index) {
    if (!all->bound) return 0;
    if (kind == AW_THREAD_WORKER) return aw__processors_bind(&all->allowed, index);
    aw__processors_set(&all->allowed);
    return 0;
}

int aw__thread_begins(const aw__threads *all, aw_thread_kind kind, uint32_t index) {
    name_thread(all, kind, index);
    int error = bind_thread(all, kind, index);
    if (all->start) all->start(all->data, kind, index);
    return error;
}

void aw__thread_ends(const aw__threads *all, aw_thread_kind kind, uint32_t index) {
    if (all->stop) all->stop(all->data, kind, index);
}
