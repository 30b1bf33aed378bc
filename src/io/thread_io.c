/* SPDX-License-Identifier: MIT */
#include "io/thread_io.h"

bool aw__thread_io_park_in_driver(aw__thread_io *io, uint64_t deadline, aw__events *e) {
    aw__driver *d = io->driver;
    bool asleep = aw__os_park_elsewhere(&io->word);
    e->count = d->type->collect(d, e->events, asleep ? deadline : 0);
    return !asleep || aw__os_unparked(&io->word);
}

void aw__thread_io_leave(aw__thread_io *io) {
    aw__driver *d = aw__load_acquire(&io->driver);
    if (d && aw__load_relaxed(&d->owner) && d->type->drain) d->type->drain(d);
    aw__store_relaxed(&io->owner, (uint64_t)0);
}

void aw__thread_io_close(aw__thread_io *io) {
    if (io->driver) aw__driver_close(io->driver);
    if (io->shared) aw__driver_close(io->shared);
}

void aw__thread_io_free(aw__thread_io *io) {
    if (io->shared) aw__driver_free(io->shared);
    if (io->driver) aw__driver_free(io->driver);
}
