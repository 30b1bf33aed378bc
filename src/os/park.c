/* SPDX-License-Identifier: MIT
 *
 * Parking on a futex. FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC deadline in nanoseconds,
 * so deadlines need no rounding. */
#include "os/park.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"

enum { PARK_EMPTY, PARK_TOKEN, PARK_SLEEPING, PARK_ELSEWHERE }; /* the park word: see park.h */

uint64_t aw__os_now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t aw__os_entropy(void) {
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) == (ssize_t)sizeof bits) return bits;
    return aw__os_now() ^ (uint64_t)getpid() << 32;
}

void aw__os_yield(void) {
    sched_yield();
}

void aw__os_nap(void) {
    struct timespec ms = {0, 1000000};
    nanosleep(&ms, NULL);
}

void aw__os_wait(int *tries) {
    if (++*tries < 100)
        aw__spin_hint();
    else
        sched_yield(); /* the other thread may be preempted */
}

static void futex_wait(uint32_t *word, uint32_t expected, uint64_t deadline) {
    struct timespec ts, *limit = NULL;
    if (deadline != UINT64_MAX) {
        ts.tv_sec = (time_t)(deadline / 1000000000u);
        ts.tv_nsec = (long)(deadline % 1000000000u);
        limit = &ts;
    }
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, limit, NULL,
            FUTEX_BITSET_MATCH_ANY);
    errno = saved; /* wake-up, signal, changed word or deadline: the caller checks the word again */
}

bool aw__os_park(uint32_t *word, uint64_t deadline) {
    /* The exchanges acquire what unpark released. */
    if (aw__exchange(word, (uint32_t)PARK_EMPTY) == PARK_TOKEN) return true;
    for (;;) {
        uint32_t seen = PARK_EMPTY;
        if (!aw__cas(word, &seen, (uint32_t)PARK_SLEEPING)) {
            aw__exchange(word, (uint32_t)PARK_EMPTY); /* a token arrived in between */
            return true;
        }
        futex_wait(word, PARK_SLEEPING, deadline);
        if (aw__exchange(word, (uint32_t)PARK_EMPTY) == PARK_TOKEN) return true;
        if (deadline != UINT64_MAX && aw__os_now() >= deadline) return false;
    }
}

bool aw__os_unpark(uint32_t *word) {
    uint32_t was = aw__exchange(word, (uint32_t)PARK_TOKEN);
    if (was == PARK_SLEEPING) {
        int saved = errno;
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        errno = saved;
    }
    return was == PARK_ELSEWHERE;
}

bool aw__os_park_elsewhere(uint32_t *word) {
    uint32_t seen = PARK_EMPTY;
    if (aw__cas(word, &seen, (uint32_t)PARK_ELSEWHERE)) return true;
    aw__exchange(word, (uint32_t)PARK_EMPTY);
    return false;
}

bool aw__os_unparked(uint32_t *word) {
    return aw__exchange(word, (uint32_t)PARK_EMPTY) == PARK_TOKEN;
}
