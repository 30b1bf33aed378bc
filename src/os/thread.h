/* SPDX-License-Identifier: MIT
 *
 * Threads of the library's own. They block all signals: those are for the program's threads. */
#ifndef AW_OS_THREAD_H
#define AW_OS_THREAD_H

#include <pthread.h>

/* 0 or a negative errno. `id` NULL: nobody will join it. The name is cut to 15 characters. */
int aw__os_thread(pthread_t *id, void *(*main)(void *arg), void *arg, const char *name);

#endif
