/* SPDX-License-Identifier: MIT
 *
 * What several tasks write down for the test: with workers two of them may do so at once. ADD promises nothing
 * but the count; who waits for a number by LOAD sees what was done before the STORE of it. */
#ifndef AWAKE_TEST_NOTES_H
#define AWAKE_TEST_NOTES_H

#define LOAD(x)     __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)
#define ADD(x, n)   __atomic_fetch_add(&(x), (n), __ATOMIC_RELAXED)

#endif
