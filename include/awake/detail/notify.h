/* SPDX-License-Identifier: MIT
 *
 * awake/detail/notify.h: private. The atomic load of a generation: by the library's own atomics if
 * they are defined, because a model checker replaces them. */
#ifndef AWAKE_DETAIL_NOTIFY_H
#define AWAKE_DETAIL_NOTIFY_H

#ifdef aw__load_acquire
#define AW__NOTIFY_LOAD(p) aw__load_acquire(p)
#else
#define AW__NOTIFY_LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#endif

#endif
