/* SPDX-License-Identifier: MIT
 *
 * Which workers sleep, and which one to wake for new work. `word` counts the workers that *search*
 * (look for work in the queues of other workers) and those that are *parked*. Parked workers are in
 * a list, under a lock that is not taken while all workers are busy. The threads for blocking calls
 * (src/blocking/) use the same protocol.
 *
 *   1. A thread that makes work visible (a seq_cst store to a queue) then loads the word (seq_cst).
 *      If no worker is parked, all workers will check the queues by themselves. If a worker
 *      searches, it will find the work. Otherwise the thread takes a worker out of the list, counts
 *      it as searching, and unparks it. After a task has yielded, its worker may postpone this
 *      until it is about to run another task: until then it will take the yielded task itself.
 *   2. A searcher that finds work stops searching. If it was the last one it wakes another worker,
 *      because threads that pushed meanwhile have relied on it.
 *   3. A worker that parks puts itself into the list and counts itself (seq_cst). If it was the
 *      last searcher, or no worker searched, it then checks all queues once more (seq_cst loads):
 *      either the pushing thread sees it parked, or it sees the push. If it finds work it leaves
 *      the list and searches: there may be more than it will take, and the pushing threads have
 *      relied on it (rule 2).
 *   4. At most half of the workers search at once, to avoid contention. A worker that may not
 *      search parks, and relies on those that do. */
#ifndef AW_OS_IDLE_H
#define AW_OS_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "os/lock.h"

/* One per worker. */
typedef struct aw__sleeper {
    struct aw__sleeper *next, *prev; /* in the list of parked workers */
    bool listed;
} aw__sleeper;

typedef struct aw__idle {
    uint32_t word; /* atomic: parked in the high half, searching in the low half */
    uint32_t lock; /* guards the list, and changes of the parked count */
    aw__sleeper *first;
    uint64_t parks; /* how often a worker has parked */
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
    aw__list_remove(&idle->first, s);
    s->listed = false;
}

/* Rule 1: there is work. Returns the worker to unpark, or NULL. */
static inline aw__sleeper *aw__idle_notify(aw__idle *idle) {
    uint32_t word = aw__load_seq(&idle->word);
    if (!aw__idle_parked(word) || aw__idle_searching(word)) return NULL;
    aw__lock(&idle->lock);
    aw__sleeper *s = idle->first;
    /* Not older than the value loaded above: a worker that searches now began after our push. */
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

/* Rule 3: a worker about to sleep has seen work and searches. Always true. */
static inline bool aw__idle_search_on(aw__idle *idle) {
    aw__fetch_add_seq(&idle->word, AW__SEARCHING);
    return true;
}

/* Rule 2: a searcher has found work. True: it was the last one and must notify. */
static inline bool aw__idle_found(aw__idle *idle) {
    return aw__idle_searching(aw__fetch_add_seq(&idle->word, -AW__SEARCHING)) == 1;
}

/* Rule 3. True: check the queues once more before sleeping. */
static inline bool aw__idle_park(aw__idle *idle, aw__sleeper *s, bool searching) {
    aw__lock(&idle->lock);
    s->listed = true;
    aw__list_insert_head(&idle->first, s);
    idle->parks++;
    uint32_t word = aw__fetch_add_seq(&idle->word,
                                      AW__IDLE_PARKED - (searching ? AW__SEARCHING : 0));
    aw__unlock(&idle->lock);
    return aw__idle_searching(word) == (searching ? 1u : 0u);
}

/* Awake again, for any reason. True: aw__idle_notify took it out of the list, and it searches. */
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
