/* SPDX-License-Identifier: MIT
 *
 * awake/detail/task.h: private. Spawning: a future is moved into a task, and the source location is
 * recorded. */
#ifndef AWAKE_DETAIL_TASK_H
#define AWAKE_DETAIL_TASK_H

#include <awake/detail/forms.h>

/* The tasks of a scope or a join set. */
typedef struct aw__members {
    struct aw__member *first, *last;
} aw__members;

/* The current location, as a constant aw_location; `name` is that of a task, or NULL. */
#define AW__LOCATION AW__LOCATION_OF(NULL)
#define AW__LOCATION_OF(name)                                                                      \
    __extension__({                                                                                \
        static const aw_location aw__here = {__FILE__, __LINE__, name};                            \
        &aw__here;                                                                                 \
    })

/* In a spawn: the future that is spawned, and its size. */
#define AW__SPAWNED &aw__spawned.future, sizeof aw__spawned

/* The handle that `call` returns, as a pointer to the type of the future. */
#define AW__SPAWN_BY(call, ...)                                                                    \
    AW__MOVE(aw__spawned, (__typeof__(aw__spawned) *)(void *)call, __VA_ARGS__)

#define AW__SPAWN(rt, storage, name, ...)                                                          \
    AW__SPAWN_BY(aw_spawn_future((rt), AW__SPAWNED, AW__LOCATION_OF(name), storage), __VA_ARGS__)
#define AW__SPAWN_AT(rt, worker, ...)                                                              \
    AW__SPAWN_BY(aw_spawn_future_at((rt), (worker), AW__SPAWNED, AW__LOCATION, NULL), __VA_ARGS__)
#define AW__SPAWN_IN(storage, ...)                                                                 \
    __extension__({                                                                                \
        AW__STATIC_ASSERT(sizeof((storage)->frame) >= sizeof(__VA_ARGS__),                         \
                          "the storage is too small");                                             \
        AW__SPAWN(NULL, (storage), NULL, __VA_ARGS__);                                             \
    })

#endif
