/* SPDX-License-Identifier: MIT
 *
 * awake/local.h: values that belong to the current task.
 *
 *     static aw_local request_id;                           the address is the key
 *     aw_local_set(&request_id, value, free);               in a task
 *     value = aw_local_get(&request_id);                    NULL when it was not set
 *
 * Values are released when the task ends, or when they are replaced. They are not inherited. The main future of
 * block_on counts as a task, except that of a thread that is in block_on of a current-thread runtime while
 * another thread runs it. */
#ifndef AWAKE_LOCAL_H
#define AWAKE_LOCAL_H

#include <awake/config.h>

AW_C_BEGIN

typedef struct aw_local {
    char key;
} aw_local;

/* 0; -ENOMEM (the value stays the caller's); -ENXIO outside a task. `release` may be NULL. A NULL
 * value takes the entry away. */
AW_API int aw_local_set(aw_local *key, void *value, void (*release)(void *value));
AW_API void *aw_local_get(const aw_local *key);

AW_C_END

#endif
