/* SPDX-License-Identifier: MIT
 *
 * Who sleeps, and who is to be woken when there is work. `word` counts the workers that *search* (that
 * look into the queues of others) and those that are *parked*; the parked ones are in a list, under a lock
 * that nobody takes while all are busy.
 *
 *   1. Who makes work visible (a seq_cst store to a queue) then looks at the word (seq_cst load). Nobody
 *      parked: all will look at the queues by themselves. Somebody searches: he will find it. Otherwise
 *      it takes one out of the list, counts him as searching, and unparks him. A worker whose task yielded
 *      may wait with that until it is about to run another one: until then it will take this one itself.
 *   2. A searcher that finds work stops searching; if he was the last one he wakes another, because
 *      those who pushed meanwhile have relied on him.
 *   3. A worker that parks puts itself into the list and counts itself (seq_cst), and after that looks at
 *      all queues once more (seq_cst loads) if it was the last searcher, or nobody searched: either who
 *      pushed sees it parked, or it sees the push. Finding something, it takes itself out again and
 *      searches on: there may be more than it will take, and those who pushed have relied on it (rule 2).
 *   4. At most half of the workers search at once: more would only get into each other's way. One that
 *      may not search parks, trusting those who do. */
#ifndef AW_WORKERS_IDLE_H
#define AW_WORKERS_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/lock.h"

/* One for each worker. */
typedef struct aw__sleeper {
    struct aw__sleeper *next, *prev; /* in the list */
    bool listed;
} aw__sleeper;

typedef struct aw__idle {
    uint32_t word; /* atomic: parked in the high half, searching in the low one */
    uint32_t lock; /* guards the list, and changes of `parked` */
    aw__sleeper *first;
    uint64_t parks; /* how often one of them fell asleep */
    uint32_t workers;
} aw__idle;

enum { AW__SEARCHING = 1, AW__IDLE_PARKED = 1 << 16 };

static inline uint32_t aw__idle_searching(uint32_t word) {
    return word & 0xffff;
}
static inline uint32_t aw__idle_parked(uint32_t word) {
    return word >> 16;
}

static inline void aw__idle_remove(aw__idle *idle, aw__sleeper *s) {
    if (s->next) s->next->prev = s->prev;
    if (s->prev)
        s->prev->next = s->next;
    else
        idle->first = s->next;
    s->listed = false;
}

/* Rule 1: there is work. Returns whom to unpark, or NULL. */
static inline aw__sleeper *aw__idle_notify(aw__idle *idle) {
    uint32_t word = aw__load_seq(&idle->word);
    if (!aw__idle_parked(word) || aw__idle_searching(word)) return NULL;
    aw__lock(&idle->lock);
    aw__sleeper *s = idle->first;
    /* Not older than what we saw: who searches now does so after our push. */
    if (s && !aw__idle_searching(aw__load_relaxed(&idle->word))) {
        aw__idle_remove(idle, s);
        aw__fetch_add_seq(&idle->word, AW__SEARCHING - AW__IDLE_PARKED);
    } else {
        s = NULL;
    }
    aw__unlock(&idle->lock);
    return s;
}

/* Rule 4: whether this worker may search. */
static inline bool aw__idle_search(aw__idle *idle) {
    if (2 * aw__idle_searching(aw__load_relaxed(&idle->word)) >= idle->workers) return false;
    aw__fetch_add_seq(&idle->word, AW__SEARCHING);
    return true;
}

/* Rule 3: it was about to sleep and has seen work. Always true. */
static inline bool aw__idle_search_on(aw__idle *idle) {
    aw__fetch_add_seq(&idle->word, AW__SEARCHING);
    return true;
}

/* Rule 2: a searcher has found something. True: he was the last, and has to notify. */
static inline bool aw__idle_found(aw__idle *idle) {
    return aw__idle_searching(aw__fetch_add_seq(&idle->word, -AW__SEARCHING)) == 1;
}

/* Rule 3. True: look at the queues once more before sleeping. */
static inline bool aw__idle_park(aw__idle *idle, aw__sleeper *s, bool searching) {
    aw__lock(&idle->lock);
    s->listed = true;
    s->prev = NULL;
    s->next = idle->first;
    if (s->next) s->next->prev = s;
    idle->first = s;
    idle->parks++;
    uint32_t word = aw__fetch_add_seq(&idle->word,
                                      AW__IDLE_PARKED - (searching ? AW__SEARCHING : 0));
    aw__unlock(&idle->lock);
    return aw__idle_searching(word) == (searching ? 1u : 0u);
}

/* Awake again, for whatever reason. True: somebody has taken it out of the list, and it is searching. */
static inline bool aw__idle_unpark(aw__idle *idle, aw__sleeper *s) {
    aw__lock(&idle->lock);
    bool listed = s->listed;
    if (listed) {
        aw__idle_remove(idle, s);
        aw__fetch_add_seq(&idle->word, -AW__IDLE_PARKED);
    }
    aw__unlock(&idle->lock);
    return !listed;
}

#endif
