/* SPDX-License-Identifier: MIT
 *
 * The state of a task of a multi-thread runtime: one atomic word. Each transition is one
 * read-modify-write with acquire and release. A wake is one even when it changes nothing: what a
 * thread did before a wake is visible to the poll that follows it, on any worker.
 *
 *   RUNNING    a worker polls it, and owns the frame and the fields that belong to the poll
 *   NOTIFIED   it is in a queue, or the worker that runs it now will queue it
 *   DONE       it has ended: the output, or the reason why there is none, is in place
 *   CANCEL     to be cancelled, not polled
 *   HANDLE     the handle has not been dropped; the output belongs to it
 *   JOINER     a join waits, and the task points to it
 *   CHECK      dropping a reference requires a check for quiescence (quiescence.h)
 *   the rest   references: of the runtime until it is DONE, of the handle, of each waker
 *
 *   1. The thread that sets NOTIFIED on a task that is neither RUNNING nor DONE queues it; so it is
 *      queued at most once. A queue needs no reference: the runtime's lasts until DONE, and a
 *      queued task is not done.
 *   2. A worker takes the task out of the queue, and changes NOTIFIED to RUNNING. When the poll is
 *      pending it clears RUNNING; if NOTIFIED was set meanwhile, it must queue the task itself.
 *   3. When the task has ended the worker changes RUNNING to DONE. HANDLE decides in the same step
 *      which thread discards an output that was not taken: the worker if the handle is gone, else
 *      the thread that drops the handle.
 *   4. A join that waits writes the task's `joiner`, then sets JOINER. From then until it clears
 *      JOINER the worker may use the join: if it finds JOINER when it sets DONE, it takes the
 *      waker, and then clears `joiner` (release). So a join that finds DONE when it clears JOINER
 *      waits for that, a few instructions.
 *   5. The thread that drops the last reference frees the task.
 *   6. A thread that wants to inspect the frame of a waiting task sets RUNNING as a worker would,
 *      and clears it by rule 2.
 *   7. A task that wakes itself in its own poll does not set NOTIFIED, but tells its worker
 *      (`self_woken`). The worker marks it AW__QUEUED_RUNNING and queues it still RUNNING, without
 *      touching the word: the queue passes the frame on to the worker that takes it out. A wake
 *      meanwhile only sets NOTIFIED (rule 1), so the task is still queued at most once. The worker
 *      that takes it out clears NOTIFIED if it is set: the poll that follows answers that wake too.
 *      A later wake falls under rule 2.
 *   8. A thread that finds references of other threads, and needs to know when they are dropped,
 *      sets CHECK. A thread that is about to drop a reference and sees CHECK clears it, drops the
 *      reference, and checks for quiescence. It must look before the drop, which may free the
 *      task. */
#ifndef AW_SCHED_MULTI_TASK_STATE_H
#define AW_SCHED_MULTI_TASK_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

enum {
    AW__W_RUNNING = 1,
    AW__W_NOTIFIED = 2,
    AW__W_DONE = 4,
    AW__W_CANCEL = 8,
    AW__W_HANDLE = 16,
    AW__W_JOINER = 32,
    AW__W_CHECK = 64,
    AW__W_REF = 256
};

/* A new task, about to be queued: with the references of the runtime and the handle. */
static inline uint64_t aw__word_new(void) {
    return AW__W_NOTIFIED | AW__W_HANDLE | 2 * AW__W_REF;
}

/* Rule 1. True: queue the task. */
static inline bool aw__word_wake(uint64_t *word) {
    uint64_t old = aw__fetch_or(word, (uint64_t)AW__W_NOTIFIED);
    return !(old & (AW__W_NOTIFIED | AW__W_RUNNING | AW__W_DONE));
}

/* The same, and request a cancel. A second abort does nothing: the first one made sure that the
 * task runs. */
static inline bool aw__word_abort(uint64_t *word) {
    uint64_t old = aw__load_relaxed(word);
    do
        if (old & (AW__W_CANCEL | AW__W_DONE)) return false;
    while (!aw__cas(word, &old, old | AW__W_NOTIFIED | AW__W_CANCEL));
    return !(old & (AW__W_NOTIFIED | AW__W_RUNNING));
}

/* Rule 2: taken out of the queue. True: cancel the task. */
static inline bool aw__word_run(uint64_t *word) {
    return aw__fetch_sub(word, (uint64_t)(AW__W_NOTIFIED - AW__W_RUNNING)) & AW__W_CANCEL;
}

/* Rule 7: taken out of the queue. True: cancel the task. CANCEL is only set together with NOTIFIED,
 * so without NOTIFIED there is nothing new to see. */
static inline bool aw__word_run_on(uint64_t *word) {
    uint64_t old = aw__load_relaxed(word);
    if (old & AW__W_NOTIFIED) old = aw__fetch_and(word, ~(uint64_t)AW__W_NOTIFIED);
    return old & AW__W_CANCEL;
}

/* The poll is pending. True: queue the task. */
static inline bool aw__word_pend(uint64_t *word) {
    return aw__fetch_sub(word, (uint64_t)AW__W_RUNNING) & AW__W_NOTIFIED;
}

/* Rule 6. False: the task does not wait. True: inspect it, and then call aw__word_pend. */
static inline bool aw__word_watch(uint64_t *word) {
    uint64_t old = aw__load_relaxed(word);
    do
        if (old & (AW__W_RUNNING | AW__W_NOTIFIED | AW__W_DONE)) return false;
    while (!aw__cas(word, &old, old | AW__W_RUNNING));
    return true;
}

/* Rule 3: the task has ended. Returns the old word. */
static inline uint64_t aw__word_done(uint64_t *word) {
    return aw__fetch_add(word, (uint64_t)(AW__W_DONE - AW__W_RUNNING));
}

/* Rule 4. True: the task is done, and no worker uses the join. */
static inline bool aw__word_join(uint64_t *word) {
    return aw__fetch_or(word, (uint64_t)AW__W_JOINER) & AW__W_DONE;
}
/* True: the task is done; its worker may still use the join. */
static inline bool aw__word_unjoin(uint64_t *word) {
    return aw__fetch_and(word, ~(uint64_t)AW__W_JOINER) & AW__W_DONE;
}

/* Drops the handle, but not yet its reference. True: the task is done, and the caller discards the
 * output. */
static inline bool aw__word_drop_handle(uint64_t *word) {
    return aw__fetch_and(word, ~(uint64_t)AW__W_HANDLE) & AW__W_DONE;
}

/* Rule 5. The caller of aw__word_ref has a reference. aw__word_unref: true if it was the last. */
static inline void aw__word_ref(uint64_t *word) {
    aw__fetch_add_relaxed(word, (uint64_t)AW__W_REF);
}
static inline bool aw__word_unref(uint64_t *word) {
    return aw__fetch_sub(word, (uint64_t)AW__W_REF) < 2 * AW__W_REF;
}

/* Rule 8. Returns the old word. */
static inline uint64_t aw__word_request_check(uint64_t *word) {
    return aw__fetch_or(word, (uint64_t)AW__W_CHECK);
}
/* Drops a reference, unless CHECK is set: then false, and the caller still has it. */
static inline bool aw__word_try_unref(uint64_t *word, bool *last) {
    uint64_t old = aw__load_relaxed(word);
    do
        if (old & AW__W_CHECK) return false;
    while (!aw__cas(word, &old, old - AW__W_REF));
    *last = old < 2 * AW__W_REF;
    return true;
}
/* The caller is about to drop its reference, and then checks. */
static inline void aw__word_clear_check(uint64_t *word) {
    aw__fetch_and(word, ~(uint64_t)AW__W_CHECK);
}

static inline bool aw__word_is_done(const uint64_t *word) {
    return aw__load_acquire(word) & AW__W_DONE;
}

#endif
