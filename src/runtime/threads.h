/* SPDX-License-Identifier: MIT
 *
 * What the threads of a runtime have in common: the name, the hooks, the processors. Those that may
 * outlive the runtime have a copy. */
#ifndef AW_RUNTIME_THREADS_H
#define AW_RUNTIME_THREADS_H

#include <awake/hooks.h>

#include "os/processors.h"

typedef struct aw__threads {
    char name[16]; /* their names begin with it */
    void (*start)(void *data, aw_thread_kind kind, uint32_t index);
    void (*stop)(void *data, aw_thread_kind kind, uint32_t index);
    void *data;
    bool bound; /* each worker to one of `allowed`; the others are free */
    aw__processor_set allowed;
} aw__threads;

/* First and last thing on such a thread. An error says that a worker could not be bound. */
int aw__thread_begins(const aw__threads *all, aw_thread_kind kind, uint32_t index);
void aw__thread_ends(const aw__threads *all, aw_thread_kind kind, uint32_t index);

#endif
