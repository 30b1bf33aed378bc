/* SPDX-License-Identifier: MIT
 *
 * A sleep for loops of one's own, without any runtime: used by 21 to 25.
 *
 * A nap that has to wait enters a list, sorted by time, with a clone of the waker of its latest poll.
 * The loop sleeps until the first of them is due, and wakes it. The list needs no memory: a future stays
 * where it is from its first poll to its end, so it can be linked; and it always leaves the list before
 * it goes away, by ending or by being cancelled. */
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

static struct nap *naps; /* the first to end comes first */
static uint64_t now;     /* one time for all that happens in a turn of the loop */
static int nap_polls;

static void nap_leave_list(struct nap *nap) {
    struct nap **place = &naps;
    while (*place && *place != nap)
        place = &(*place)->next;
    if (!*place) return;
    *place = nap->next;
    aw_waker_drop(nap->waker);
}

static aw_poll nap_poll(aw_future *self, aw_cx *cx) {
    struct nap *nap = (struct nap *)self;
    nap_polls++;
    nap_leave_list(nap); /* this poll may have brought another waker */
    if (nap->end <= now) return AW_READY;
    struct nap **place = &naps;
    while (*place && (*place)->end <= nap->end)
        place = &(*place)->next;
    nap->next = *place;
    nap->waker = aw_waker_clone(aw_cx_waker(cx));
    *place = nap;
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
    if (!now) now = aw_now(NULL); /* the very first turn */
    return (struct nap){.future = AW_FUTURE_INIT(&nap_type), .end = now + duration};
}

/* Between two turns of the loop. False: nobody naps, so nothing would end this sleep. */
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
