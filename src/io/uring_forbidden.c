/* SPDX-License-Identifier: MIT
 *
 * The io_uring backend once the process may not enter its rings any more, for example after it has
 * installed a seccomp filter: rule 7 of uring_state.h.
 *
 * Any thread whose enter is refused marks the driver. From then on `submit` refuses operations
 * (uring.c), and a thread that collects fails what is queued and sleeps on the eventfd. */
#define _GNU_SOURCE
#include "io/uring_state.h"

#ifdef AW_URING

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/misuse.h"
#include "context/context.h"
#include "os/lock.h"
#include "os/park.h"

void aw__uring_mark_forbidden(uring_driver *u, int error) {
    int none = 0;
    if (aw__cas_seq(&u->forbidden, &none, -EACCES))
        aw__rt_log(u->driver.runtime, AW_LOG_PROBLEM,
                   "io_uring is not allowed any more: %s; operations in flight may never complete",
                   strerror(-error));
}

/* What is queued fails only while no thread is in the kernel, which might submit it. */
static int reap_or_fail_queued(uring_driver *u, aw__event *events) {
    bool woken = false;
    aw__lock(&u->driver.lock);
    int count = aw__uring_reap(u, events, &woken);
    if (!count && !aw__load_seq(&u->entering))
        count = aw__uring_fail_queued(u, events, aw__load_relaxed(&u->forbidden));
    aw__unlock(&u->driver.lock);
    return count;
}

static void sleep_on_eventfd(const uring_driver *u, uint64_t deadline) {
    enum { MAX_SLEEP_MS = 10 }; /* then reap again: the kernel may complete something by itself */
    uint64_t now = aw__os_now(), left = deadline > now ? (deadline - now) / 1000000 + 1 : 0;
    struct pollfd wake = {u->wake_fd, POLLIN, 0};
    eventfd_t value;
    if (poll(&wake, 1, left < MAX_SLEEP_MS ? (int)left : MAX_SLEEP_MS) == 1)
        eventfd_read(u->wake_fd, &value);
}

int aw__uring_collect_without_entering(uring_driver *u, aw__event *events, uint64_t deadline) {
    int count = reap_or_fail_queued(u, events);
    if (!count && deadline) sleep_on_eventfd(u, deadline);
    return count;
}

#endif
