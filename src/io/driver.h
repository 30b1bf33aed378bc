/* SPDX-License-Identifier: MIT
 *
 * A driver is how a thread waits for the kernel: one sleep covers descriptors, a deadline, and
 * interrupts by other threads. Each worker owns a driver, and so does a runtime without workers. A
 * driver is created when the first descriptor has to wait; until then threads park on a futex
 * (thread_io.h).
 *
 *   1. A descriptor is registered once, edge-triggered. It stays registered until it is closed, or
 *      until it waits in another runtime. An event carries a table index and the age of that slot
 *      (how often it was reused). So an event that was collected before its descriptor was closed
 *      matches nothing.
 *   2. Any thread may collect events, several threads at once: a stuck worker does not hold back
 *      its events. A thread that finds a descriptor in the table holds a reference while it
 *      delivers the event.
 *   3. The driver's lock guards the table, also while the table grows. No event is delivered under
 *      it. Lock order: the descriptor's lock (io/fd.h), then the driver's.
 *   4. A forked child unregisters nothing: the registrations in the kernel belong to the parent.
 *   5. A backend may instead submit operations, which the kernel completes (`submit`). Then no
 *      descriptor is registered, and an event names the operation that completed. Which of the two
 *      a descriptor uses is decided where it first waits.
 *   6. Where workers do not steal, a backend may use a ring that only one thread can enter
 *      (`owner`). The owner drains it before it leaves. Requests of other threads stay queued until
 *      the owner polls. Other threads therefore use a *shared* driver beside it (its `primary` is
 *      the owner's driver), which any thread may enter. They submit by themselves, and a cancel
 *      waits for no other thread. No thread sleeps in a shared driver. Its completions end the
 *      sleep of the primary's owner, which delivers them; so does the monitor if the owner is
 *      stuck, or any thread that enters in between.
 *   7. Each registered descriptor holds a reference to the driver. When the runtime shuts down, the
 *      driver is closed: all waits are completed, and later requests are refused. */
#ifndef AW_IO_DRIVER_H
#define AW_IO_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include <awake/alloc.h>

#include "base/atomic.h"
#include "io/slots.h"

struct aw__fd;
struct aw_io;
typedef struct aw__driver aw__driver;

/* Bits of a readiness event. AW__MORE: a short read does not mean that nothing is left. There was
 * an end of file, an error, or urgent data. */
enum { AW__READABLE = 1, AW__WRITABLE = 2, AW__BOTH = 3, AW__MORE = 4 };

typedef struct aw__event {
    union {
        struct {
            uint32_t index, age; /* slot in the table, and its age */
        };
        struct aw_io *op; /* or the operation that completed */
    };
    union {
        uint32_t ready;
        int32_t result;
    };
    uint32_t more; /* more completions of this operation follow */
} aw__event;

enum { AW__EVENTS = 128 }; /* per collect */

/* A backend. Errors are negative errnos. */
typedef struct aw__driver_type {
    const char *name;
    size_t size; /* of the struct that begins with an aw__driver */
    int (*open)(aw__driver *d);
    void (*close)(aw__driver *d);
    /* Start reporting events of `fd`, with the driver's lock held. `remove` stops it; late events
     * are dropped by their age. */
    int (*add)(aw__driver *d, int fd, uint32_t index, uint32_t age);
    void (*remove)(aw__driver *d, int fd, uint32_t index);
    /* A waiter needs these directions. NULL: they are always reported. */
    void (*want)(aw__driver *d, uint32_t index, uint32_t directions);
    /* Completion backends, with the descriptor's lock held. `submit` queues an operation, or, with
     * a direction in `poll`, a poll for readiness. `cancel` queues a cancel request for an
     * operation in flight that is marked AW__IO_CANCEL_REQUESTED. The queue is submitted by the
     * next `collect`, or by `flush` on any thread. -EBUSY: the queue is full, flush first.
     * -ESHUTDOWN: the driver is closed. */
    int (*submit)(aw__driver *d, struct aw_io *op, uint32_t poll);
    void (*cancel)(aw__driver *d, struct aw_io *op);
    void (*flush)(aw__driver *d);
    /* Cancel everything in flight and wait for it: at close, and when the owner leaves. NULL: there
     * is nothing in flight. */
    void (*drain)(aw__driver *d);
    /* Let any thread enter from now on. Called by the owner. NULL: any thread may already. */
    int (*share)(aw__driver *d);
    /* Collect events, or sleep until there is one, until `deadline` (CLOCK_MONOTONIC; 0: do not
     * sleep), or until an interrupt. Returns the number of events. */
    int (*collect)(aw__driver *d, aw__event *events, uint64_t deadline);
    /* Nothing to collect and nothing to submit. Owner only; makes no system call. */
    bool (*is_idle)(const aw__driver *d);
    /* End the current or the next sleep. Any thread. */
    void (*interrupt)(aw__driver *d);
    /* A descriptor that is readable while there are events to collect, or an interrupt. NULL:
     * none. */
    int (*pollable)(aw__driver *d);
} aw__driver_type;

/* A slot of the table: an aw__fd, or free. */
typedef struct aw__driver_entry {
    uintptr_t slot;
    uint32_t age; /* how often the slot was reused */
} aw__driver_entry;

/* See aw_io_counters. The first two are written under the lock. All are atomic for readers. */
typedef struct aw__driver_counters {
    uint64_t operations, waits, events, calls;
} aw__driver_counters;

struct aw__driver {
    const aw__driver_type *type;
    const aw_allocator *allocator;
    const void *runtime; /* the runtime that it belongs to */
    /* Atomic, and so is the number: the only thread that may enter, or 0. NULL: any thread may. */
    const uint64_t *owner;
    const aw__driver *primary; /* of a shared driver: the owner's (rule 6); else NULL */
    uint32_t generation; /* fork generation of its creator: a forked child does not touch it */
    uint32_t refs;       /* atomic: its users, and each registered descriptor */
    aw__driver_counters counters;
    uint32_t lock; /* guards the members below */
    bool closed;
    /* Descriptors; or, without an age, operations that are queued or in flight. */
    aw__slots table;
};

extern const aw__driver_type aw__uring_driver, aw__epoll_driver, aw__poll_driver;

static inline void aw__count_one(uint64_t *counter) {
    aw__store_relaxed(counter, *counter + 1);
}
static inline void aw__count_call(aw__driver *d) {
    aw__fetch_add_relaxed(&d->counters.calls, (uint64_t)1);
}

/* The named backend, or NULL if unknown. Without a name io_uring, which may fall back to epoll
 * later (io/driver_for_thread.c). */
const aw__driver_type *aw__driver_by_name(const char *name);
int aw__driver_open(aw__driver **d, const aw__driver_type *type, const aw_allocator *allocator,
                    const uint64_t *owner);
/* Rule 6. Only where `primary` has an owner. */
int aw__driver_open_shared(aw__driver **d, const aw__driver *primary);
/* `close` at the shutdown of the runtime (rule 7); `free` once no thread can interrupt the
 * driver. */
void aw__driver_close(aw__driver *d);
void aw__driver_free(aw__driver *d);

void aw__driver_ref(aw__driver *d);
void aw__driver_unref(aw__driver *d);

/* Register and unregister a descriptor. With its lock held, or its last reference. */
int aw__driver_add(aw__driver *d, struct aw__fd *f, int fd, uint32_t *index);
void aw__driver_remove(aw__driver *d, int fd, uint32_t index);

/* No descriptor is registered: `is_idle` of backends that would need a system call to look. */
bool aw__driver_is_unused(const aw__driver *d);

/* Deliver events to descriptors or operations. Any thread, no locks held. */
void aw__driver_deliver(aw__driver *d, const aw__event *events, int count);
/* Collect without sleeping, and deliver. Returns the number of events; at AW__EVENTS there may be
 * more. */
int aw__driver_poll(aw__driver *d);
/* The same with a sleep, for a driver in which no thread sleeps. */
int aw__driver_poll_until(aw__driver *d, uint64_t deadline);
/* Submit the queue. For threads other than the owner. */
void aw__driver_flush(aw__driver *d);

#endif
