/* SPDX-License-Identifier: MIT
 *
 * Every atomic operation of the library goes through these names, so that a model checker can
 * replace them. They work on plain integers and pointers, because public headers have no _Atomic.
 * The name says the memory order; without a suffix it is acquire and release. There are no
 * fences. */
#ifndef AW_BASE_ATOMIC_H
#define AW_BASE_ATOMIC_H

#include <stdbool.h>

#define aw__load_relaxed(p)         __atomic_load_n((p), __ATOMIC_RELAXED)
#define aw__load_acquire(p)         __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define aw__store_relaxed(p, v)     __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define aw__store_release(p, v)     __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define aw__exchange(p, v)          __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define aw__fetch_add(p, v)         __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define aw__fetch_sub(p, v)         __atomic_fetch_sub((p), (v), __ATOMIC_ACQ_REL)
#define aw__fetch_or(p, v)          __atomic_fetch_or((p), (v), __ATOMIC_ACQ_REL)
#define aw__fetch_and(p, v)         __atomic_fetch_and((p), (v), __ATOMIC_ACQ_REL)
#define aw__fetch_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)

/* Sequentially consistent. Used for one pattern only: two threads each store, then load what the
 * other one stored. At least one of them sees the other's store. */
#define aw__load_seq(p)         __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define aw__store_seq(p, v)     __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define aw__fetch_add_seq(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)
#define aw__fetch_sub_seq(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_SEQ_CST)
#define aw__cas_seq(p, expected, desired)                                                          \
    __atomic_compare_exchange_n((p), (expected), (desired), false, __ATOMIC_SEQ_CST,               \
                                __ATOMIC_ACQUIRE)

/* Strong. On failure *expected receives the current value. */
#define aw__cas(p, expected, desired)                                                              \
    __atomic_compare_exchange_n((p), (expected), (desired), false, __ATOMIC_ACQ_REL,               \
                                __ATOMIC_ACQUIRE)

static inline void aw__spin_hint(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
