/* SPDX-License-Identifier: MIT
 *
 * awake/task_local.h: values that belong to the current task.
 *
 *     static aw_local request_id;                           its address is the key
 *     aw_local_set(&request_id, value, free);               in a task
 *     value = aw_local_get(&request_id);                    NULL if not set
 *
 * A value is released when it is replaced and when the task ends. Spawned tasks do not inherit
 * values. The main future of block_on counts as a task, unless another thread runs the same
 * current-thread runtime at that time. */
#ifndef AWAKE_TASK_LOCAL_H
#define AWAKE_TASK_LOCAL_H

#include <awake/config.h>

AW_C_BEGIN

typedef struct aw_local {
    char key;
} aw_local;

/* Returns 0; -ENOMEM: you keep the value; -ENXIO outside a task. `release` may be NULL. A NULL
 * value removes the entry. */
AW_API int aw_local_set(aw_local *key, void *value, void (*release)(void *value));
AW_API void *aw_local_get(const aw_local *key);

AW_C_END

#endif
