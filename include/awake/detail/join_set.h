/* SPDX-License-Identifier: MIT
 *
 * awake/detail/join_set.h: private. The macros of join sets. */
#ifndef AWAKE_DETAIL_JOIN_SET_H
#define AWAKE_DETAIL_JOIN_SET_H

#include <awake/detail/task.h>
#include <awake/detail/waiter.h>

#define AW__JOIN_SET_SPAWN(set, rt, ...)                                                           \
    AW__SPAWN_BY(aw_join_set_spawn_future((set), (rt), AW__SPAWNED, AW__LOCATION), __VA_ARGS__)

/* Where a handle is stored: `h` points to a pointer to a future of a known type, or to an
 * aw_future *. Any other type does not compile. */
#define AW__HANDLE_TO(h)     ((void)sizeof((*(h))->future), (void *)(h))
#define AW__ANY_HANDLE_TO(h) ((void)sizeof((*(h))->type->poll), (void *)(h))

#endif
