/* SPDX-License-Identifier: MIT
 *
 * How a thread waits for the system: for descriptors that become ready, for a deadline, and for other threads, in one
 * sleep. Each worker has a driver of its own, and so has a runtime without workers; it is made with the first
 * descriptor that has to wait, until then threads sleep on a futex (place.h).
 *
 *   1. Descriptors are registered once, edge-triggered, and stay until they are closed, or wait in another runtime.
 *      An event names a place in the table, and how often it has been used: one that was collected before its
 *      descriptor was closed finds nothing.
 *   2. Any thread may collect events, several at once: a worker that is stuck does not keep its own. Who has found a
 *      descriptor in the table holds a reference while it tells it.
 *   3. The table is under a lock, also while it grows; no event is told under it. A descriptor's own lock (io/fd.h)
 *      comes first.
 *   4. In the child of a fork nothing is taken out: what the system has there is the parent's.
 *   5. A backend may instead take operations and complete them (`submit`): then nothing is registered, and an event
 *      names the operation that came back. Which of the two a descriptor gets is decided where it first waits.
 *   6. Where no work is stolen a backend may use something that only one thread can enter (`owner`): that thread then
 *      leaves nothing behind when it goes, and what others want of it waits until it looks. So others have a driver
 *      *beside* it, which all of them may enter: they hand over by themselves, and a cancel waits for nobody. No thread
 *      sleeps there; what comes back is told by the owner of the first one, whose sleep it ends, by the monitor if he
 *      is stuck, or by whoever enters it in between.
 *   7. Each registered descriptor keeps the driver's memory. When the runtime ends the driver is closed: who waits is
 *      told, and everything later is refused. */
#ifndef AW_DRIVER_DRIVER_H
#define AW_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include <awake/alloc.h>

#include "core/atomic.h"
#include "driver/slots.h"

struct aw__fd;
struct aw_io;
typedef struct aw__driver aw__driver;

/* What is ready: bits of an event. With AW__MORE a read that gets less than it asked for does not mean that nothing
 * is left: the end has been seen, an error, or urgent data. */
enum { AW__READABLE = 1, AW__WRITABLE = 2, AW__BOTH = 3, AW__MORE = 4 };

typedef struct aw__event {
    union {
        struct {
            uint32_t index, age; /* the place in the table, and its use */
        };
        struct aw_io *op; /* or what is done */
    };
    union {
        uint32_t ready;
        int32_t result;
    };
    uint32_t more; /* it is not the last one of that operation */
} aw__event;

enum { AW__EVENTS = 128 }; /* collected at a time */

/* What a backend does. Errors are negative errnos. */
typedef struct aw__driver_type {
    const char *name;
    size_t size; /* of the struct that begins with an aw__driver */
    int (*open)(aw__driver *d);
    void (*close)(aw__driver *d);
    /* From now on tell of it; under the table's lock. And not any more; what comes late is sorted out by its age. */
    int (*add)(aw__driver *d, int fd, uint32_t index, uint32_t age);
    void (*remove)(aw__driver *d, int fd, uint32_t index);
    /* Somebody waits for this. NULL: it is told anyway. */
    void (*want)(aw__driver *d, uint32_t index, uint32_t directions);
    /* Or, with the lock of its descriptor: give an operation to the system, as it is or, with a direction in `poll`,
     * to wait for readiness; have one come back that is there, and marked (AW__IO_ASKED_BACK). What is queued waits for
     * the next `collect`, or `flush` by anybody. -EBUSY: the queue is full, flush it first; -ESHUTDOWN. */
    int (*submit)(aw__driver *d, struct aw_io *op, uint32_t poll);
    void (*cancel)(aw__driver *d, struct aw_io *op);
    void (*flush)(aw__driver *d);
    /* At the end, and when its owner leaves: have all come back, and wait for them. NULL: there are none. */
    void (*drain)(aw__driver *d);
    /* From now on any thread may enter. By the owner. NULL: so it is. */
    int (*share)(aw__driver *d);
    /* Collect what has happened, or sleep until something does, until `deadline` (CLOCK_MONOTONIC; 0: do not) or an
     * interrupt. Returns how many. */
    int (*collect)(aw__driver *d, aw__event *events, uint64_t deadline);
    /* End the current or the next sleep. Any thread. */
    void (*interrupt)(aw__driver *d);
    /* A descriptor that is readable when there is something to collect, or an interrupt. NULL: there is none. */
    int (*pollable)(aw__driver *d);
} aw__driver_type;

/* A slot of the table: an aw__fd, or free. */
typedef struct aw__driver_entry {
    uintptr_t slot;
    uint32_t age; /* how often it has been used */
} aw__driver_entry;

/* See aw_io_counters. The first two are written under the lock; all are atomic to look at. */
typedef struct aw__driver_counters {
    uint64_t operations, waits, events, calls;
} aw__driver_counters;

struct aw__driver {
    const aw__driver_type *type;
    const aw_allocator *allocator;
    const void *runtime; /* whose it is, to compare */
    /* Atomic, and what it points to: the number of the only thread that may enter, or 0. NULL: any may. */
    const uint64_t *owner;
    const aw__driver *beside; /* the one that it is beside; NULL: it is not */
    uint32_t generation; /* of the process that made it: in the child of a fork it is not touched */
    uint32_t refs;       /* atomic: of who uses it, and of each descriptor */
    aw__driver_counters counters;
    uint32_t lock; /* guards what follows */
    bool closed;
    /* Of the descriptors; or of the operations that the system has, without an age. */
    aw__slots table;
};

extern const aw__driver_type aw__uring_driver, aw__epoll_driver, aw__poll_driver;

static inline void aw__count_one(uint64_t *counter) {
    aw__store_relaxed(counter, *counter + 1);
}
static inline void aw__count_call(aw__driver *d) {
    aw__fetch_add_relaxed(&d->counters.calls, (uint64_t)1);
}

/* The backend that is named, or NULL; by default the best that works here. */
const aw__driver_type *aw__driver_named(const char *name);
int aw__driver_open(aw__driver **d, const aw__driver_type *type, const aw_allocator *allocator,
                    const uint64_t *owner);
/* Rule 6. Not where any thread may enter `of`. */
int aw__driver_open_beside(aw__driver **d, const aw__driver *of);
/* By the runtime, at its end: whoever waits is told. And when nobody can interrupt it any more. */
void aw__driver_close(aw__driver *d);
void aw__driver_free(aw__driver *d);

void aw__driver_keep(aw__driver *d);
void aw__driver_let_go(aw__driver *d);

/* Register a descriptor, and take it out again. By who holds its lock. */
int aw__driver_add(aw__driver *d, struct aw__fd *f, int fd, uint32_t *index);
void aw__driver_remove(aw__driver *d, int fd, uint32_t index);

/* Tell the descriptors. Any thread, without locks. */
void aw__driver_tell(aw__driver *d, const aw__event *events, int count);
/* Collect what is there, and tell. Returns how many; if they are AW__EVENTS there may be more. */
int aw__driver_turn(aw__driver *d);
/* Of one in which nobody sleeps: the same, and wait for it. */
int aw__driver_turn_until(aw__driver *d, uint64_t deadline);
/* By who is not its owner: what was queued is given to the system. */
void aw__driver_hand_over(aw__driver *d);

#endif
