/* SPDX-License-Identifier: MIT
 *
 * What the threads of a runtime have in common: name, hooks, processors. Threads that may outlive
 * the runtime use a copy. */
#ifndef AW_OS_THREAD_SETUP_H
#define AW_OS_THREAD_SETUP_H

#include <awake/hooks.h>

#include "os/processors.h"

typedef struct aw__threads {
    char name[16]; /* prefix of the thread names */
    void (*start)(void *data, aw_thread_kind kind, uint32_t index);
    void (*stop)(void *data, aw_thread_kind kind, uint32_t index);
    void *data;
    bool bound; /* each worker to one processor of `allowed`, other threads to all of them */
    aw__processor_set allowed;
} aw__threads;

/* The first and last call on such a thread. An error means that a worker could not be bound. */
int aw__thread_begins(const aw__threads *all, aw_thread_kind kind, uint32_t index);
void aw__thread_ends(const aw__threads *all, aw_thread_kind kind, uint32_t index);

#endif
