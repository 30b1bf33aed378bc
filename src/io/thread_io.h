/* SPDX-License-Identifier: MIT
 *
 * How a thread of a runtime sleeps and is woken. It parks on a futex or, from the first descriptor
 * that waits on this thread, inside its driver. The park word (os/park.h) says which, so that an
 * unpark wakes it in the right way. */
#ifndef AW_IO_THREAD_IO_H
#define AW_IO_THREAD_IO_H

#include "base/atomic.h"
#include "io/driver.h"
#include "os/park.h"
#include "os/thread.h"

typedef struct aw__thread_io {
    uint32_t word;
    aw__driver *driver; /* atomic; NULL until needed, then constant */
    uint64_t owner;     /* atomic: number of the thread that sleeps here, or 0 */
    /* Atomic; NULL until needed, then constant: the shared driver (rule 6 of driver.h), for threads
     * that may not enter `driver`. Its completions end the owner's sleep too. They are delivered by
     * the owner, or by a thread that polls on its behalf. */
    aw__driver *shared;
} aw__thread_io;

/* By the owner thread: when it begins, and before another thread may. */
static inline void aw__thread_io_begin(aw__thread_io *io) {
    aw__store_relaxed(&io->owner, aw__os_thread_number());
}
void aw__thread_io_leave(aw__thread_io *io);

/* Events collected by a park. The thread delivers them after it has marked itself awake. */
typedef struct aw__events {
    int count;
    aw__event events[AW__EVENTS];
} aw__events;

bool aw__thread_io_park_in_driver(aw__thread_io *io, uint64_t deadline, aw__events *e);

/* As aw__os_park; may collect events. */
static inline bool aw__thread_io_park(aw__thread_io *io, uint64_t deadline, aw__events *e) {
    e->count = 0;
    if (!aw__load_acquire(&io->driver)) return aw__os_park(&io->word, deadline);
    return aw__thread_io_park_in_driver(io, deadline, e);
}

static inline void aw__thread_io_unpark(aw__thread_io *io) {
    if (!aw__os_unpark(&io->word)) return;
    aw__driver *d = aw__load_acquire(&io->driver);
    d->type->interrupt(d);
}

static inline void aw__thread_io_poll_shared(aw__thread_io *io) {
    enum { MAX_POLLS = 16 };
    aw__driver *d = aw__load_acquire(&io->shared);
    if (AW__LIKELY(!d)) return;
    for (int i = 0; i < MAX_POLLS; i++)
        if (aw__driver_poll(d) == 0) return;
    /* Interrupt the owner: no further event comes for the rest. */
    io->driver->type->interrupt(io->driver);
}

static inline void aw__thread_io_deliver(aw__thread_io *io, const aw__events *e) {
    if (e->count) aw__driver_deliver(io->driver, e->events, e->count);
    aw__thread_io_poll_shared(io);
}

/* Poll without sleeping. Any thread. */
static inline void aw__thread_io_poll(aw__thread_io *io) {
    aw__driver *d = aw__load_acquire(&io->driver); /* another thread may have just opened it */
    if (d) aw__driver_poll(d);
    aw__thread_io_poll_shared(io);
}

/* The same by the owner, before a task that yielded: it runs after everything that has happened.
 * Makes no system call if the driver is idle. An operation that the first poll submits may complete
 * at once: then poll again. */
static inline void aw__thread_io_poll_for_yield(aw__thread_io *io) {
    aw__driver *d = aw__load_acquire(&io->driver);
    for (int i = 0; d && i < 2 && !d->type->is_idle(d); i++)
        if (aw__driver_poll(d) == 0 || !d->type->submit) break;
    aw__thread_io_poll_shared(io);
}

/* At the shutdown of the runtime; and once no thread can unpark it. */
void aw__thread_io_close(aw__thread_io *io);
void aw__thread_io_free(aw__thread_io *io);

#endif
