/* SPDX-License-Identifier: MIT
 *
 * Threads that the library starts. They block the signals that are sent to the process, which are
 * meant for the program's own threads. Signals of faults stay unblocked: the kernel kills the
 * process without calling the handler if a fault raises a blocked signal. */
#ifndef AW_OS_THREAD_H
#define AW_OS_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* Starts a thread. 0 or a negative errno. `id` NULL: the thread is detached. */
int aw__os_thread(pthread_t *id, void *(*main)(void *arg), void *arg);

/* Names the calling thread `first` `last`, in at most 15 characters: `first` is truncated. */
void aw__os_thread_name(const char *first, const char *last);

/* The number of the calling thread. Never 0, never used for another thread. */
uint64_t aw__os_thread_number(void);

#endif
