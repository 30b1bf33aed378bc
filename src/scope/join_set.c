/* SPDX-License-Identifier: MIT
 *
 * Join sets. Tasks are members (task/member.h); the set owns their handles until they are taken.
 * Any thread may call these functions. Lists and count are under a short lock: a task that ends
 * goes to the first waiter or to the end of the ended list.
 *
 *   1. An ending task claims its member (`flag`), takes the lock, and hands itself over; its last
 *      access is the unlock. So after a thread has taken the task, under the lock or later, the
 *      task does not touch the set any more.
 *   2. Detaching claims the member first: a task that finds it detached does not access the set. A
 *      task that was faster is about to take the lock: detach_all waits for it, a few steps.
 *   3. A task that ends while it is being spawned is handed over by the spawning thread, which
 *      still uses it.
 *   4. If a handed-over task is discarded, it goes to the next waiter or to the front of the ended
 *      list. */
#include <awake/join_set.h>

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "future/waiters.h"
#include "os/park.h"
#include "scope/member_list.h"

/* `state` of a member: the list that it is in; in none from MEMBER_FRESH on. */
enum {
    MEMBER_RUNNING,
    MEMBER_ABORTED, /* asked to end */
    MEMBER_ENDED,
    MEMBER_FRESH,       /* being spawned */
    MEMBER_ENDED_EARLY, /* ended while being spawned */
    MEMBER_TAKEN
};
/* `flag` of a member, atomic: rule 2. */
enum { MEMBER_WATCHED, MEMBER_REPORTED, MEMBER_DETACHED };
enum { JOIN_SET_ABORT_BATCH = 32 };

static void member_move(aw_join_set *set, aw__member *m, uint32_t to) {
    if (m->state <= MEMBER_ENDED) aw__tailq_remove(&set->members[m->state], m);
    m->state = to;
    if (to <= MEMBER_ENDED) aw__tailq_insert_tail(&set->members[to], m);
}

/* ---- Handing over: under the lock ------------------------------------------------------------ */

static aw_join_set_next_future *join_set_next_of(aw__waiter *w) {
    return (aw_join_set_next_future *)(void *)w;
}

static void join_set_take(aw_join_set *set, aw__member *m, aw__waiter *w) {
    member_move(set, m, MEMBER_TAKEN);
    aw__store_relaxed(&set->count, set->count - 1);
    join_set_next_of(w)->join.task = m->task;
}

/* 0; -ECHILD: the set is empty; -EAGAIN: no task has ended yet. */
static int join_set_try_take(aw__waiter *w) {
    aw_join_set *set = join_set_next_of(w)->set;
    aw__member *m = set->members[MEMBER_ENDED].first;
    if (!m) return set->count ? -EAGAIN : -ECHILD;
    join_set_take(set, m, w);
    return 0;
}

/* Releases the lock, also between batches. The set is not touched once it has no waiters: it may be
 * gone then. A thread that is busy with the queue serves the rest (future/waiters.h). */
static void serve_and_unlock(aw_join_set *set) {
    aw__wakes wakes = {.count = 0};
    int out;
    for (aw__waiter *w; (w = set->waiters.first) && !aw__waiter_is_busy(w);) {
        if (aw__wakes_full(&wakes)) {
            if (!aw__wakes_flush(&set->lock, &set->waiters, &wakes)) return;
        } else if ((out = join_set_try_take(w)) == -EAGAIN) {
            break;
        } else {
            aw__waiter_end(&set->waiters, w, out, &wakes);
        }
    }
    aw__unlock(&set->lock);
    aw__wakes_run(&wakes);
}

static void task_ended(aw__member *m, int status, int error) {
    aw_join_set *set = m->owner;
    (void)status, (void)error; /* reported by the join */
    if (aw__exchange(&m->flag, (uint32_t)MEMBER_REPORTED) == MEMBER_DETACHED) return;
    aw__lock(&set->lock);
    member_move(set, m, m->state == MEMBER_FRESH ? MEMBER_ENDED_EARLY : MEMBER_ENDED);
    serve_and_unlock(set);
}

/* ---- Spawning -------------------------------------------------------------------------------- */

static void join_set_list(aw_join_set *set, aw__member *m) {
    aw__lock(&set->lock);
    member_move(set, m, m->state == MEMBER_ENDED_EARLY ? MEMBER_ENDED : MEMBER_RUNNING);
    serve_and_unlock(set);
}

aw_future *aw_join_set_spawn_future(aw_join_set *set, aw_runtime *rt, aw_future *f, size_t size,
                                    const aw_location *location) {
    aw__member m = {
        .ended = task_ended, .owner = set, .state = MEMBER_FRESH, .flag = MEMBER_WATCHED};
    aw__lock(&set->lock);
    aw__store_relaxed(&set->count, set->count + 1); /* before it can end */
    aw__unlock(&set->lock);
    aw_future *task = aw__spawn_member(rt, f, size, location, &m, false);
    if (!aw__task_error(task)) {
        join_set_list(set, aw__member_of(task));
        return task;
    }
    aw__lock(&set->lock);
    aw__store_relaxed(&set->count, set->count - 1);
    serve_and_unlock(set); /* waiters get -ECHILD if the set is empty now */
    return task;
}

size_t aw_join_set_count(const aw_join_set *set) {
    return aw__load_relaxed(&set->count);
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* In batches, so that the lock is not held for long. */
void aw_join_set_abort_all(aw_join_set *set) {
    for (bool more = true; more;) {
        aw__member *m = NULL;
        aw__lock(&set->lock);
        for (int i = 0; i < JOIN_SET_ABORT_BATCH && (m = set->members[MEMBER_RUNNING].first); i++) {
            member_move(set, m, MEMBER_ABORTED);
            aw__task_abort(m->task);
        }
        more = m != NULL;
        aw__unlock(&set->lock);
    }
}

/* Under the lock: moves members that will not report any more to `out`. False: some are about to
 * report (rule 2). */
static bool detach_members(aw_join_set *set, aw__members *out) {
    bool all = true;
    for (int i = MEMBER_RUNNING; i <= MEMBER_ENDED; i++)
        for (aw__member *m = set->members[i].first, *next; m; m = next) {
            next = m->next;
            uint32_t watched = MEMBER_WATCHED;
            if (i != MEMBER_ENDED && !aw__cas(&m->flag, &watched, (uint32_t)MEMBER_DETACHED)) {
                all = false;
                continue;
            }
            member_move(set, m, MEMBER_TAKEN);
            aw__store_relaxed(&set->count, set->count - 1);
            aw__tailq_insert_tail(out, m);
        }
    return all;
}

void aw_join_set_detach_all(aw_join_set *set) {
    aw__members detached = {NULL, NULL};
    int tries = 0;
    aw__lock(&set->lock);
    while (!detach_members(set, &detached)) {
        aw__unlock(&set->lock);
        aw__os_wait(&tries);
        aw__lock(&set->lock);
    }
    serve_and_unlock(set); /* waiters get -ECHILD: the set is empty */
    for (aw__member *m = detached.first, *next; m; m = next) {
        next = m->next;
        aw__task_drop(m->task); /* without the lock: it may discard an output */
    }
}

/* ---- Next ------------------------------------------------------------------------------------ */

static void store_handle(const aw_join_set_next_future *f, aw_future *task) {
    memcpy(f->handle, &task, sizeof task);
}

/* The result is there: join the task. It has ended, so the join needs neither waker nor budget. */
static aw_poll join_set_finish(aw_join_set_next_future *f, const aw_cx *cx) {
    aw_cx plain = {cx->waker, cx->runtime, NULL};
    if (f->out == 0) {
        aw_future_poll(&f->join.future, &plain);
        f->out = f->join.out;
    }
    store_handle(f, f->join.task);
    return AW_READY;
}

static aw_poll join_set_next_poll(aw_future *self, aw_cx *cx) {
    aw_join_set_next_future *f = (aw_join_set_next_future *)self;
    aw_join_set *set = f->set;
    aw_poll r = aw__wait_poll((aw__waiter *)(void *)f, &set->lock, &set->waiters, join_set_try_take,
                              cx);
    return r == AW_READY ? join_set_finish(f, cx) : AW_PENDING;
}

static aw_poll join_set_next_cancel(aw_future *self, aw_cx *cx) {
    aw_join_set_next_future *f = (aw_join_set_next_future *)self;
    aw__waiter *w = (aw__waiter *)(void *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&f->set->lock);
    bool dequeued = aw__wait_leave_busy(&f->set->lock, &f->set->waiters, w);
    aw__unlock(&f->set->lock);
    aw_poll r = aw__wait_cancelled(w, dequeued, cx);
    return r == AW_READY ? join_set_finish(f, cx) : r;
}

/* Rule 4. */
static void join_set_next_discard(aw_future *self) {
    aw_join_set_next_future *f = (aw_join_set_next_future *)self;
    if (!f->join.task) return;
    aw__member *m = aw__member_of(f->join.task);
    aw_future_discard(&f->join.future);
    aw__lock(&f->set->lock);
    m->state = MEMBER_ENDED;
    aw__tailq_insert_head(&f->set->members[MEMBER_ENDED], m);
    aw__store_relaxed(&f->set->count, f->set->count + 1);
    serve_and_unlock(f->set);
}

static void join_set_describe(const aw_join_set *const_set, char *buf, size_t size) {
    aw_join_set *set = (aw_join_set *)(uintptr_t)const_set;
    aw__text text = {buf, size, 0};
    aw__lock(&set->lock);
    aw__text_add(&text, set->count == 1 ? "%zu task" : "%zu tasks", set->count);
    aw__members_name(&text, set->members, MEMBER_ENDED + 1);
    aw__unlock(&set->lock);
}

static void join_set_next_describe(const aw_future *self, char *buf, size_t size) {
    join_set_describe(((const aw_join_set_next_future *)self)->set, buf, size);
}

const aw_future_type aw_join_set_next_type = {
    AW_TYPE_OF(aw_join_set_next_future, "join_set_next"),
    .flags = AW_OUT_ERRNO,
    .poll = join_set_next_poll,
    .cancel = join_set_next_cancel,
    .discard = join_set_next_discard,
    .describe = join_set_next_describe,
};

int aw__join_set_try_next(aw_join_set *set, void *handle) {
    aw_join_set_next_future f = aw__join_set_next(set, handle);
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    aw__lock(&set->lock);
    f.out = join_set_try_take((aw__waiter *)(void *)&f);
    aw__unlock(&set->lock);
    join_set_finish(&f, &cx);
    return f.out;
}

/* ---- Shutdown -------------------------------------------------------------------------------- */

/* Cleanup ignores the budget. */
static aw_poll poll_next_unbudgeted(aw_join_set_next_future *f, aw_cx *cx) {
    uint32_t budget = cx->meter ? cx->meter->budget : 0;
    if (cx->meter) cx->meter->budget = UINT32_MAX;
    aw_poll r = aw_future_poll(&f->future, cx);
    if (cx->meter) cx->meter->budget = budget;
    return r;
}

static aw_poll join_set_shutdown_poll(aw_future *self, aw_cx *cx) {
    aw_join_set_shutdown_future *f = (aw_join_set_shutdown_future *)self;
    aw_join_set *set = f->next.set;
    aw_join_set_abort_all(set);
    f->next.handle = &f->task;
    while (poll_next_unbudgeted(&f->next, cx) == AW_READY) {
        if (!f->task) return AW_READY;
        aw_future_discard(&f->next.join.future); /* returns the output to the handle */
        aw__task_drop(f->task);
        f->next = aw__join_set_next(set, &f->task);
    }
    return AW_PENDING;
}

/* Continues: it is a cleanup. */
static aw_poll join_set_shutdown_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_started(self) ? join_set_shutdown_poll(self, cx) : AW_CANCELLED;
}

static void join_set_shutdown_describe(const aw_future *self, char *buf, size_t size) {
    join_set_describe(((const aw_join_set_shutdown_future *)self)->next.set, buf, size);
}

const aw_future_type aw_join_set_shutdown_type = {
    AW_TYPE_OF(aw_join_set_shutdown_future, "join_set_shutdown"),
    .flags = AW_OUT_ERRNO,
    .poll = join_set_shutdown_poll,
    .cancel = join_set_shutdown_cancel,
    .describe = join_set_shutdown_describe,
};
