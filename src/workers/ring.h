/* SPDX-License-Identifier: MIT
 *
 * The run queue of a worker: a ring that its owner fills and empties, and from which others steal half.
 *
 * `tail` is where the owner puts the next task; only the owner writes it. `head` is two numbers in one
 * word: `real`, the next task to be taken, and `steal`, the first whose place may not be reused yet. They
 * differ only while a thief copies: it claims [steal, real) by moving `real`, reads the tasks, and then
 * lets `steal` follow. Numbers only grow and wrap around; a place is the number modulo the size.
 *
 *   1. The owner pushes into a place that no number in [steal, tail) names, then stores tail
 *      (seq_cst: a thief that sees it sees the task; and see idle.h for who looks whether to wake).
 *   2. The owner takes by moving `real` (and `steal` with it when nobody copies) by compare-and-swap:
 *      a thief may move it too. What is taken was written by the owner itself.
 *   3. A thief moves `real` by compare-and-swap, only when nobody else copies: from then on the tasks are
 *      its own. Acquire on tail makes their places readable. When it has copied it moves `steal` up to
 *      where `real` is by then (release: its reads are over before the owner reuses the places, acquire of
 *      head in 1). */
#ifndef AW_WORKERS_RING_H
#define AW_WORKERS_RING_H

#include <stdint.h>

#include "core/atomic.h"
#include "runtime/task.h"

#ifndef AW__RING_SIZE
#define AW__RING_SIZE 256u
#endif

typedef struct aw__ring {
    uint64_t head;               /* atomic: steal in the high half, real in the low one */
    uint32_t tail;               /* atomic: written by the owner */
    aw__task *at[AW__RING_SIZE]; /* atomic */
} aw__ring;

static inline uint64_t aw__ring_head(uint32_t steal, uint32_t real) {
    return (uint64_t)steal << 32 | real;
}

/* By the owner. False: it is full; see aw__ring_spill. */
static inline bool aw__ring_push(aw__ring *r, aw__task *t) {
    uint32_t tail = aw__load_relaxed(&r->tail);
    uint32_t steal = (uint32_t)(aw__load_acquire(&r->head) >> 32);
    if (tail - steal >= AW__RING_SIZE) return false;
    aw__store_relaxed(&r->at[tail % AW__RING_SIZE], t);
    aw__store_seq(&r->tail, tail + 1);
    return true;
}

/* By the owner. NULL: it is empty. */
static inline aw__task *aw__ring_pop(aw__ring *r) {
    uint32_t tail = aw__load_relaxed(&r->tail);
    uint64_t head = aw__load_acquire(&r->head);
    for (;;) {
        uint32_t steal = (uint32_t)(head >> 32), real = (uint32_t)head;
        if (real == tail) return NULL;
        uint64_t next = aw__ring_head(steal == real ? real + 1 : steal, real + 1);
        if (aw__cas(&r->head, &head, next)) return aw__load_relaxed(&r->at[real % AW__RING_SIZE]);
    }
}

/* By the owner, when a push found it full: takes the older half out as a list, oldest first, linked by
 * `next`. NULL: a thief has made, or is about to make, room. */
static inline aw__task *aw__ring_spill(aw__ring *r, aw__task **last) {
    uint64_t head = aw__load_acquire(&r->head);
    uint32_t real = (uint32_t)head, n = AW__RING_SIZE / 2;
    if (real != (uint32_t)(head >> 32) || aw__load_relaxed(&r->tail) - real < AW__RING_SIZE)
        return NULL;
    if (!aw__cas(&r->head, &head, aw__ring_head(real + n, real + n))) return NULL;
    aw__task *first = NULL, **link = &first;
    for (uint32_t i = 0; i < n; i++) {
        *last = *link = aw__load_relaxed(&r->at[(real + i) % AW__RING_SIZE]);
        link = &(*last)->next;
    }
    *link = NULL;
    return first;
}

/* By any other worker: moves half of `from`, at least one, to `into`, its own ring. Returns one of them to
 * be run at once; NULL: there was nothing, or somebody else steals, or `into` is more than half full: its
 * own tasks may all be gone, but a thief still copies them (as in 1). */
static inline aw__task *aw__ring_steal(aw__ring *from, aw__ring *into) {
    uint32_t tail = aw__load_relaxed(&into->tail);
    if (tail - (uint32_t)(aw__load_acquire(&into->head) >> 32) > AW__RING_SIZE / 2) return NULL;
    uint64_t head = aw__load_acquire(&from->head);
    uint32_t steal, real, n;
    do {
        steal = (uint32_t)(head >> 32);
        real = (uint32_t)head;
        n = aw__load_acquire(&from->tail) - real;
        /* More than fits: head has moved since, and the exchange would fail. */
        if (steal != real || n == 0 || n > AW__RING_SIZE) return NULL;
        n -= n / 2;
    } while (!aw__cas(&from->head, &head, aw__ring_head(steal, real + n)));

    for (uint32_t i = 0; i + 1 < n; i++) {
        aw__task *t = aw__load_relaxed(&from->at[(real + i) % AW__RING_SIZE]);
        aw__store_relaxed(&into->at[(tail + i) % AW__RING_SIZE], t);
    }
    aw__task *last = aw__load_relaxed(&from->at[(real + n - 1) % AW__RING_SIZE]);

    head = aw__ring_head(steal, real + n);
    while (!aw__cas(&from->head, &head, aw__ring_head((uint32_t)head, (uint32_t)head))) {
    }
    if (n > 1) aw__store_seq(&into->tail, tail + n - 1);
    return last;
}

/* By anyone: a glance. */
static inline uint32_t aw__ring_length(const aw__ring *r) {
    uint32_t real = (uint32_t)aw__load_acquire(&r->head);
    uint32_t n = aw__load_relaxed(&r->tail) - real; /* which may have moved on meanwhile */
    return n < AW__RING_SIZE ? n : AW__RING_SIZE;
}
static inline bool aw__ring_is_empty(const aw__ring *r) {
    return (uint32_t)aw__load_acquire(&r->head) == aw__load_seq(&r->tail);
}

#endif
