/* SPDX-License-Identifier: MIT
 *
 * A thread that sleeps on a word until another hands it a token, and the clock it sleeps by. */
#ifndef AW_OS_PARK_H
#define AW_OS_PARK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t aw__os_now(void);     /* CLOCK_MONOTONIC in nanoseconds */
uint64_t aw__os_entropy(void); /* 64 random bits */
void aw__os_yield(void);       /* let another thread run */
void aw__os_nap(void);         /* for a millisecond */
void aw__os_wait(int *tries);  /* for what another thread is about to do; begin with 0 */

/* The word is 0: nothing, 1: a token is there, 2: the owner sleeps, 3: it sleeps elsewhere. One thread parks on it, any
 * thread unparks. Park takes the token, at once when it is there already; false: the deadline came
 * first. Everything before an unpark is visible after the park that took its token. */
bool aw__os_park(uint32_t *word, uint64_t deadline);
/* True: it sleeps elsewhere, and has to be told there. */
bool aw__os_unpark(uint32_t *word);

/* To sleep in another way: false, when a token was there, and is taken. And awake again: whether there is one. */
bool aw__os_park_elsewhere(uint32_t *word);
bool aw__os_unparked(uint32_t *word);

#endif
