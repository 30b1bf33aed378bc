/* SPDX-License-Identifier: MIT
 *
 * Room for the next tasks. A worker keeps what its ended tasks leave behind, sorted by size, and puts the
 * next ones there: most spawns allocate nothing. Everything here is as its last task left it, linked through
 * the task's `next`.
 *
 * For each size there are two piles. What comes goes onto the first; when that is full the second takes
 * its place, and a full second one goes to the depot, which all workers share. What is wanted comes from the
 * first; when that is empty from the second; then a whole pile comes from the depot. So a worker that
 * spawns what others end, or ends what others spawn, takes the depot's lock once for a pile, and one
 * that does both never does. What does not fit into the depot is freed. A worker that is about to sleep frees
 * its second piles, and the last one awake what is in the depot: a runtime without work keeps one pile of each
 * size for each worker, and nobody has to wake up to give back more.
 *
 * Threads that are no workers of the runtime allocate and free. So does everybody when the allocator is
 * the user's, and under sanitizers (room.h). */
#ifndef AW_WORKERS_SHELF_H
#define AW_WORKERS_SHELF_H

#include <stdbool.h>

#include "runtime/room.h"

struct aw__pool;
struct aw__worker;

enum {
    AW__PILE = 64,       /* tasks */
    AW__DEPOT_PILES = 16 /* of each size */
};

typedef struct aw__pile {
    struct aw__task *top;
    uint32_t count;
} aw__pile;

/* Of a worker; only its thread looks at it. By the size of a task and its frame in steps. */
typedef struct aw__shelf {
    aw__pile first[AW__ROOM_SIZES], second[AW__ROOM_SIZES];
    bool more; /* since it slept, there was a second pile or a third */
} aw__shelf;

typedef struct aw__depot {
    uint32_t lock __attribute__((aligned(64))); /* guards what follows */
    struct aw__task *piles[AW__ROOM_SIZES]; /* full ones, linked through `inbox_next` of the top */
    uint32_t counts[AW__ROOM_SIZES];        /* of piles */
} aw__depot;

/* As aw__room_take and aw__room_give, for a runtime with workers. Any thread. */
struct aw__task *aw__shelf_take(struct aw__pool *p, size_t frame_size);
void aw__shelf_give(struct aw__pool *p, struct aw__task *t);

/* By the worker, which is about to sleep; the last one looks after the depot. */
void aw__shelf_idle(struct aw__worker *w, bool last);
/* By the worker: free all that it has, and what is in the depot. */
void aw__shelf_clear(struct aw__worker *w);

#endif
