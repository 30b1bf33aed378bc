/* SPDX-License-Identifier: MIT
 *
 * Threads of the library's own. They block all signals: those are for the program's threads. */
#ifndef AW_OS_THREAD_H
#define AW_OS_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* 0 or a negative errno. `id` NULL: nobody will join it. */
int aw__os_thread(pthread_t *id, void *(*main)(void *arg), void *arg);

/* Name the calling thread. There is room for 15 characters: the first part is cut. */
void aw__os_thread_name(const char *first, const char *last);

/* A number of the calling thread that no other has, nor has had; not 0. */
uint64_t aw__os_thread_number(void);

#endif
