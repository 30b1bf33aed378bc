/* SPDX-License-Identifier: MIT
 *
 * A sleep for hand-written loops, without a runtime. Used by 21 to 25.
 *
 * A pending nap is in a list, sorted by deadline, with a clone of the waker of its latest poll. The
 * loop sleeps until the first deadline, and wakes that nap. The list allocates nothing: a future
 * stays in place from its first poll to its end, so it can be linked. It leaves the list before its
 * memory goes away, when it ends or is cancelled. */
#ifndef NAPS_H
#define NAPS_H

#include <awake.h>
#include <time.h>

struct nap {
    aw_future future;
    int out;
    uint64_t end;
    aw_waker waker;
    struct nap *next;
};

static struct nap *naps; /* sorted by `end` */
static uint64_t now;     /* read once per iteration of the loop */
static int nap_polls;

static void nap_leave_list(struct nap *nap) {
    struct nap **link = &naps;
    while (*link && *link != nap)
        link = &(*link)->next;
    if (!*link) return;
    *link = nap->next;
    aw_waker_drop(nap->waker);
}

static aw_poll nap_poll(aw_future *self, aw_cx *cx) {
    struct nap *nap = (struct nap *)self;
    nap_polls++;
    nap_leave_list(nap); /* this poll may have another waker */
    if (nap->end <= now) return AW_READY;
    struct nap **link = &naps;
    while (*link && (*link)->end <= nap->end)
        link = &(*link)->next;
    nap->next = *link;
    nap->waker = aw_waker_clone(aw_cx_waker(cx));
    *link = nap;
    return AW_PENDING;
}

static aw_poll nap_cancel(aw_future *self, aw_cx *cx) {
    (void)cx;
    nap_leave_list((struct nap *)self);
    return AW_CANCELLED;
}

static const aw_future_type nap_type = {
    AW_TYPE_OF(struct nap, "nap"),
    .poll = nap_poll,
    .cancel = nap_cancel,
};

static inline struct nap nap_for(uint64_t duration) {
    if (!now) now = aw_now(NULL); /* before the first iteration */
    return (struct nap){.future = AW_FUTURE_INIT(&nap_type), .end = now + duration};
}

/* Called between two iterations of the loop. Returns false if there is no nap to wait for. */
static inline bool sleep_until_first_nap_ends(void) {
    if (!naps) return false;
    struct timespec end = {(time_t)(naps->end / AW_SEC(1)), (long)(naps->end % AW_SEC(1))};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    now = aw_now(NULL);
    while (naps && naps->end <= now) {
        struct nap *nap = naps;
        naps = nap->next;
        aw_waker_wake(nap->waker);
    }
    return true;
}

#endif
