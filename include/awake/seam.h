/* SPDX-License-Identifier: MIT
 *
 * awake/seam.h: the four things that a runtime takes from the world, in one table: time, entropy,
 * the order in which tasks run, and how a thread waits for events. A test or a simulation replaces
 * them; everything above stays the same. */
#ifndef AWAKE_SEAM_H
#define AWAKE_SEAM_H

#include <awake/config.h>

AW_C_BEGIN

/* A member that is NULL means the default. `data` is passed to each. */
typedef struct aw_seam {
    size_t self_size; /* sizeof(aw_seam) */
    void *data;
    /* Nanoseconds of a clock that never goes back. Any thread. */
    uint64_t (*now)(void *data);
    /* A random number: asked once, to seed the runtime's own choices. */
    uint64_t (*entropy)(void *data);
    /* Which of the first `n` tasks in the queue runs next, 0 to n - 1; the default is 0. n is at most
     * 32. */
    uint32_t (*pick)(void *data, uint32_t n);
    /* Wait until `deadline` (of `now`; AW_FOREVER: none) or until unpark was called since the last
     * park; returning early is allowed. By the thread that runs the runtime. */
    void (*park)(void *data, uint64_t deadline);
    /* End the current or the next park. Any thread. Required when `park` is given. */
    void (*unpark)(void *data);
} aw_seam;

AW_C_END

#endif
