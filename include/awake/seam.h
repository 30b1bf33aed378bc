/* SPDX-License-Identifier: MIT
 *
 * awake/seam.h: replace what a runtime takes from the outside world: time, entropy, the order in
 * which tasks run, and how a thread waits for events. For tests and simulations.
 *
 *     static const aw_seam seam = {.self_size = sizeof(aw_seam), .data = &sim, .now = sim_now};
 *     options.seam = &seam; */
#ifndef AWAKE_SEAM_H
#define AWAKE_SEAM_H

#include <awake/config.h>

AW_C_BEGIN

/* A member that is NULL means the default. `data` is passed to each function. */
typedef struct aw_seam {
    size_t self_size; /* sizeof(aw_seam) */
    void *data;
    /* Nanoseconds of a clock that never goes back. Any thread. */
    uint64_t (*now)(void *data);
    /* A random number. Called once, to seed the runtime's choices. */
    uint64_t (*entropy)(void *data);
    /* Which of the first `n` ready tasks runs next: 0 to n - 1, by default 0. `n` is at most 32. */
    uint32_t (*pick)(void *data, uint32_t n);
    /* Wait until `deadline` (in the clock of `now`; AW_FOREVER: none), or until unpark has been
     * called since the last park. May return early. Called by the thread that runs the runtime. */
    void (*park)(void *data, uint64_t deadline);
    /* End the current or the next park. Any thread. Required with `park`. */
    void (*unpark)(void *data);
} aw_seam;

AW_C_END

#endif
