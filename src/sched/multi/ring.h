/* SPDX-License-Identifier: MIT
 *
 * The run queue of a worker: a ring buffer. Its owner pushes and pops; other workers steal half.
 *
 * `tail` is the position of the next push; only the owner writes it. `head` is two positions in one
 * word: `real`, the next task to take, and `steal`, the first slot that may not be reused yet. They
 * differ only while a thief copies: it claims [steal, real) by advancing `real`, reads the tasks,
 * and then advances `steal` to match. Positions only grow, and wrap around; a slot is the position
 * modulo the size.
 *
 *   1. The owner pushes into a slot outside [steal, tail), then stores tail (seq_cst: a thief that
 *      sees the new tail sees the task; and rule 1 of idle.h needs it).
 *   2. The owner pops by advancing `real` (and `steal` with it while no thief copies) by
 *      compare-and-swap, because a thief may advance it too. The owner wrote the slot itself.
 *   3. A thief advances `real` by compare-and-swap, and only while no other thief copies: from then
 *      on the tasks belong to it. The acquire load of tail makes their slots readable. After
 *      copying it advances `steal` to the current `real` (release: its reads end before the owner
 *      reuses the slots; it pairs with the acquire load of head in rule 1). */
#ifndef AW_SCHED_MULTI_RING_H
#define AW_SCHED_MULTI_RING_H

#include <stdint.h>

#include "base/atomic.h"
#include "task/task_header.h"

#ifndef AW__RING_SIZE
#define AW__RING_SIZE 256u
#endif

typedef struct aw__ring {
    uint64_t head;                  /* atomic: steal in the high half, real in the low half */
    uint32_t tail;                  /* atomic: written by the owner */
    aw__task *slots[AW__RING_SIZE]; /* atomic */
} aw__ring;

static inline uint64_t aw__ring_head(uint32_t steal, uint32_t real) {
    return (uint64_t)steal << 32 | real;
}

/* Owner only. False: the ring is full; see aw__ring_spill. */
static inline bool aw__ring_push(aw__ring *r, aw__task *t) {
    uint32_t tail = aw__load_relaxed(&r->tail);
    uint32_t steal = (uint32_t)(aw__load_acquire(&r->head) >> 32);
    if (tail - steal >= AW__RING_SIZE) return false;
    aw__store_relaxed(&r->slots[tail % AW__RING_SIZE], t);
    aw__store_seq(&r->tail, tail + 1);
    return true;
}

/* Owner only. NULL: the ring is empty. `position` receives that of the task. */
static inline aw__task *aw__ring_pop(aw__ring *r, uint32_t *position) {
    uint32_t tail = aw__load_relaxed(&r->tail);
    uint64_t head = aw__load_acquire(&r->head);
    for (;;) {
        uint32_t steal = (uint32_t)(head >> 32), real = (uint32_t)head;
        if (real == tail) return NULL;
        uint64_t next = aw__ring_head(steal == real ? real + 1 : steal, real + 1);
        *position = real;
        if (aw__cas(&r->head, &head, next))
            return aw__load_relaxed(&r->slots[real % AW__RING_SIZE]);
    }
}

/* Owner only, when a push found the ring full: takes out the older half as a list, oldest first,
 * linked by `next`. NULL: a thief has made space, or is about to. */
static inline aw__task *aw__ring_spill(aw__ring *r, aw__task **last) {
    uint64_t head = aw__load_acquire(&r->head);
    uint32_t real = (uint32_t)head, n = AW__RING_SIZE / 2;
    if (real != (uint32_t)(head >> 32) || aw__load_relaxed(&r->tail) - real < AW__RING_SIZE)
        return NULL;
    if (!aw__cas(&r->head, &head, aw__ring_head(real + n, real + n))) return NULL;
    aw__task *first = NULL, **link = &first;
    for (uint32_t i = 0; i < n; i++) {
        *last = *link = aw__load_relaxed(&r->slots[(real + i) % AW__RING_SIZE]);
        link = &(*last)->next;
    }
    *link = NULL;
    return first;
}

/* By another worker: moves half of `from`, at least one task, to `into`, its own ring. Returns one
 * of them to run at once. NULL: there was nothing, another thief is copying, or `into` is more than
 * half full. Its own tasks may all be gone then, but a thief still copies them (rule 1). */
static inline aw__task *aw__ring_steal(aw__ring *from, aw__ring *into) {
    uint32_t tail = aw__load_relaxed(&into->tail);
    if (tail - (uint32_t)(aw__load_acquire(&into->head) >> 32) > AW__RING_SIZE / 2) return NULL;
    uint64_t head = aw__load_acquire(&from->head);
    uint32_t steal, real, n;
    do {
        steal = (uint32_t)(head >> 32);
        real = (uint32_t)head;
        n = aw__load_acquire(&from->tail) - real;
        /* n > size: head has moved since it was loaded, and the compare-and-swap would fail. */
        if (steal != real || n == 0 || n > AW__RING_SIZE) return NULL;
        n -= n / 2;
    } while (!aw__cas(&from->head, &head, aw__ring_head(steal, real + n)));

    for (uint32_t i = 0; i + 1 < n; i++) {
        aw__task *t = aw__load_relaxed(&from->slots[(real + i) % AW__RING_SIZE]);
        aw__store_relaxed(&into->slots[(tail + i) % AW__RING_SIZE], t);
    }
    aw__task *last = aw__load_relaxed(&from->slots[(real + n - 1) % AW__RING_SIZE]);

    head = aw__ring_head(steal, real + n);
    while (!aw__cas(&from->head, &head, aw__ring_head((uint32_t)head, (uint32_t)head))) {
    }
    if (n > 1) aw__store_seq(&into->tail, tail + n - 1);
    return last;
}

/* Owner only: the position of the next task to take, which thieves may have passed; and of the next
 * push. */
static inline uint32_t aw__ring_first(const aw__ring *r) {
    return (uint32_t)aw__load_relaxed(&r->head);
}
static inline uint32_t aw__ring_end(const aw__ring *r) {
    return aw__load_relaxed(&r->tail);
}

/* Any thread; a snapshot. */
static inline uint32_t aw__ring_length(const aw__ring *r) {
    uint32_t real = (uint32_t)aw__load_acquire(&r->head);
    uint32_t n = aw__load_relaxed(&r->tail) - real; /* head may have moved on: clamp */
    return n < AW__RING_SIZE ? n : AW__RING_SIZE;
}
static inline bool aw__ring_is_empty(const aw__ring *r) {
    return (uint32_t)aw__load_acquire(&r->head) == aw__load_seq(&r->tail);
}

#endif
