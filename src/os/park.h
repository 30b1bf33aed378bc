/* SPDX-License-Identifier: MIT
 *
 * Parking: a thread sleeps on a word until another thread hands it a token. Also the clock of its
 * deadlines. */
#ifndef AW_OS_PARK_H
#define AW_OS_PARK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t aw__os_now(void);     /* CLOCK_MONOTONIC in nanoseconds */
uint64_t aw__os_entropy(void); /* 64 random bits */
void aw__os_yield(void);       /* yields the CPU */
void aw__os_nap(void);         /* sleeps for a millisecond */

/* One step of a loop that waits for another thread: spins, and from the 100th try on yields the
 * CPU. *tries starts at 0. */
void aw__os_wait(int *tries);

/* The park word. One thread, its owner, parks on it; any thread unparks it.
 *
 *     0  empty
 *     1  holds a token
 *     2  the owner sleeps on the word
 *     3  the owner sleeps elsewhere: in its driver
 *
 * Park consumes the token, without sleeping if it is already there. False: the deadline passed
 * first. Everything before an unpark is visible after the park that consumed its token. */
bool aw__os_park(uint32_t *word, uint64_t deadline);
/* True: the owner sleeps elsewhere, and the caller has to wake it there. */
bool aw__os_unpark(uint32_t *word);

/* Called by the owner before and after it sleeps elsewhere. park_elsewhere returns false if it
 * found and consumed a token: do not sleep. unparked consumes the token, and returns whether there
 * was one. */
bool aw__os_park_elsewhere(uint32_t *word);
bool aw__os_unparked(uint32_t *word);

#endif
