/* SPDX-License-Identifier: MIT
 *
 * The state of a task that any worker may run: one atomic word. Each transition is one read-modify-write
 * with acquire and release, also when it changes nothing: what a thread did before a wake is visible to
 * the poll that follows it, whoever runs that.
 *
 *   RUNNING    a worker polls it, and owns the frame and what belongs to the poll
 *   NOTIFIED   it is in a queue, or will be put there by who runs it now
 *   DONE       it has ended: the output, or why there is none, is in place
 *   CANCEL     to be cancelled, not polled
 *   HANDLE     somebody has the handle, and with it the output
 *   JOINER     a join waits, and the task points to it
 *   ASKED      who takes a reference away has to look whether all sleep (quiet.h)
 *   the rest   references: of the runtime until it is DONE, of the handle, of each waker
 *
 *   1. Who sets NOTIFIED on a task that is neither RUNNING nor DONE puts it into a queue; so it is in one
 *      at most once. A queue needs no reference: the runtime's lasts until DONE, and a task that is
 *      queued is not done.
 *   2. A worker takes it out of the queue, and turns NOTIFIED into RUNNING. When the poll is pending it
 *      takes RUNNING away; NOTIFIED, set meanwhile, means that it must queue the task itself.
 *   3. Or it turns RUNNING into DONE. HANDLE tells in the same step who will discard an output that nobody
 *      takes: the worker if the handle is gone, or whoever gives it back.
 *   4. A join that waits writes the task's `joiner`, then sets JOINER. From then until it takes JOINER away
 *      the worker may use it: a worker whose DONE finds JOINER takes the waker, and then clears `joiner`
 *      (release). So a join that finds DONE when it takes JOINER away waits for that: it is a few steps.
 *   5. Who takes the last reference away frees the task.
 *   6. Who wants to look at the frame of a task that waits sets RUNNING as a worker would, and takes it away
 *      by rule 2.
 *   7. A task that wakes itself in its own poll does not set NOTIFIED, but tells its worker. That marks it
 *      AW__HELD and puts it into a queue still RUNNING, without touching the word: the queue passes the frame
 *      on to who takes it out. Who wakes it meanwhile sets NOTIFIED and leaves it at that (rule 1), so
 *      it is still in one queue at most once. Who takes it out takes NOTIFIED away, if it is there: then
 *      the poll that follows answers that wake too. A wake that comes later is for rule 2.
 *   8. Who finds references of others, and wants to know when they go, sets ASKED. Who takes one away and
 *      finds that clears it, and looks; it has to see it before, because after that all may be gone. */
#ifndef AW_WORKERS_WORD_H
#define AW_WORKERS_WORD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/atomic.h"

enum {
    AW__W_RUNNING = 1,
    AW__W_NOTIFIED = 2,
    AW__W_DONE = 4,
    AW__W_CANCEL = 8,
    AW__W_HANDLE = 16,
    AW__W_JOINER = 32,
    AW__W_ASKED = 64,
    AW__W_REF = 256
};

/* A new task, about to be queued: the runtime's reference and the handle's. */
static inline uint64_t aw__word_new(void) {
    return AW__W_NOTIFIED | AW__W_HANDLE | 2 * AW__W_REF;
}

/* Rule 1. True: put it into a queue. */
static inline bool aw__word_wake(uint64_t *word) {
    uint64_t old = aw__fetch_or(word, (uint64_t)AW__W_NOTIFIED);
    return !(old & (AW__W_NOTIFIED | AW__W_RUNNING | AW__W_DONE));
}

/* The same, and cancel it. To do it again is nothing: the first one has seen to it that it is run. */
static inline bool aw__word_abort(uint64_t *word) {
    uint64_t old = aw__load_relaxed(word);
    do
        if (old & (AW__W_CANCEL | AW__W_DONE)) return false;
    while (!aw__cas(word, &old, old | AW__W_NOTIFIED | AW__W_CANCEL));
    return !(old & (AW__W_NOTIFIED | AW__W_RUNNING));
}

/* Rule 2, out of the queue. True: to be cancelled. */
static inline bool aw__word_run(uint64_t *word) {
    return aw__fetch_sub(word, (uint64_t)(AW__W_NOTIFIED - AW__W_RUNNING)) & AW__W_CANCEL;
}

/* Rule 7, out of the queue. Without NOTIFIED there is nothing new: CANCEL comes with it. */
static inline bool aw__word_run_on(uint64_t *word) {
    uint64_t old = aw__load_relaxed(word);
    if (old & AW__W_NOTIFIED) old = aw__fetch_and(word, ~(uint64_t)AW__W_NOTIFIED);
    return old & AW__W_CANCEL;
}

/* The poll is pending. True: put it into a queue. */
static inline bool aw__word_pend(uint64_t *word) {
    return aw__fetch_sub(word, (uint64_t)AW__W_RUNNING) & AW__W_NOTIFIED;
}

/* Rule 6. False: it does not wait. True: look, and then the same as after a poll that is pending. */
static inline bool aw__word_watch(uint64_t *word) {
    uint64_t old = aw__load_relaxed(word);
    do
        if (old & (AW__W_RUNNING | AW__W_NOTIFIED | AW__W_DONE)) return false;
    while (!aw__cas(word, &old, old | AW__W_RUNNING));
    return true;
}

/* Rule 3: it has ended. Returns what was there. */
static inline uint64_t aw__word_done(uint64_t *word) {
    return aw__fetch_add(word, (uint64_t)(AW__W_DONE - AW__W_RUNNING));
}

/* Rule 4. True: it is done, and nobody will look at the join. */
static inline bool aw__word_join(uint64_t *word) {
    return aw__fetch_or(word, (uint64_t)AW__W_JOINER) & AW__W_DONE;
}
/* True: it is done; the worker may be looking at the join. */
static inline bool aw__word_unjoin(uint64_t *word) {
    return aw__fetch_and(word, ~(uint64_t)AW__W_JOINER) & AW__W_DONE;
}

/* The handle is given back, but not its reference yet. True: it is done, the output is ours to discard. */
static inline bool aw__word_drop_handle(uint64_t *word) {
    return aw__fetch_and(word, ~(uint64_t)AW__W_HANDLE) & AW__W_DONE;
}

/* Rule 5. One more: by who has one. One less: true when it was the last. */
static inline void aw__word_ref(uint64_t *word) {
    aw__fetch_add_relaxed(word, (uint64_t)AW__W_REF);
}
static inline bool aw__word_unref(uint64_t *word) {
    return aw__fetch_sub(word, (uint64_t)AW__W_REF) < 2 * AW__W_REF;
}

/* Rule 8. Returns what was there. */
static inline uint64_t aw__word_ask(uint64_t *word) {
    return aw__fetch_or(word, (uint64_t)AW__W_ASKED);
}
/* One less, unless ASKED: then false, and it is still there. */
static inline bool aw__word_unref_unasked(uint64_t *word, bool *last) {
    uint64_t old = aw__load_relaxed(word);
    do
        if (old & AW__W_ASKED) return false;
    while (!aw__cas(word, &old, old - AW__W_REF));
    *last = old < 2 * AW__W_REF;
    return true;
}
/* ASKED is answered. */
static inline void aw__word_answer(uint64_t *word) {
    aw__fetch_and(word, ~(uint64_t)AW__W_ASKED);
}

static inline bool aw__word_is_done(const uint64_t *word) {
    return aw__load_acquire(word) & AW__W_DONE;
}

#endif
