/* SPDX-License-Identifier: MIT
 *
 * Atomics for values that tasks record for the test: on workers, two tasks may do so at once.
 * ADD orders nothing. A LOAD that sees the value of a STORE also sees everything before it. */
#ifndef AWAKE_TEST_ATOMICS_H
#define AWAKE_TEST_ATOMICS_H

#define LOAD(x)     __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)
#define ADD(x, n)   __atomic_fetch_add(&(x), (n), __ATOMIC_RELAXED)

#endif
