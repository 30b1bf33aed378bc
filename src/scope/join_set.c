/* SPDX-License-Identifier: MIT
 *
 * Join sets: members (runtime/member.h) whose handles the set has until somebody takes them. Lists and count
 * are under a short lock, because an end goes to the first who waits, or behind those that have ended.
 *
 *   1. A task that ends claims its member (`flag`), takes the lock, and hands itself over; its last act is to
 *      unlock. Who has taken it under the lock, or later, finds the set untouched from then on.
 *   2. To detach is to claim it first: a task that finds it detached does not look at the set any more. One
 *      that was quicker is about to take the lock: who detaches waits for it, a few steps.
 *   3. A task that ends while it is being spawned is handed over by who spawns it, who still needs it.
 *   4. What was handed to somebody who then does not want it goes to the next, or to the front. */
#include <awake/join_set.h>

#include <errno.h>
#include <string.h>

#include "os/park.h"
#include "scope/members.h"
#include "sync/waiters.h"

enum { /* state of a member: which list it is in, or in none */
       RUNS,
       LEAVES, /* asked to end */
       ENDED,
       FRESH, /* being spawned */
       EARLY, /* it has ended before that was over */
       TAKEN
};
enum { WATCHED, TOLD, DETACHED }; /* flag of a member, atomic: rule 2 */
enum { BATCH = 32 };

static void move(aw_join_set *set, aw__member *m, uint32_t to) {
    if (m->state <= ENDED) aw__members_remove(&set->members[m->state], m);
    m->state = to;
    if (to <= ENDED) aw__members_add(&set->members[to], m);
}

/* ---- Handing over: under the lock ------------------------------------------------------------- */

static aw_join_set_next_future *next_of(aw__waiter *w) {
    return (aw_join_set_next_future *)(void *)w;
}

static void take(aw_join_set *set, aw__member *m, aw__waiter *w) {
    move(set, m, TAKEN);
    aw__store_relaxed(&set->count, set->count - 1);
    next_of(w)->join.task = m->task;
}

/* What somebody who wants one gets: 0, -ECHILD: the set is empty, -EAGAIN: nothing yet. */
static int try_take(aw__waiter *w) {
    aw_join_set *set = next_of(w)->set;
    aw__member *m = set->members[ENDED].first;
    if (!m) return set->count ? -EAGAIN : -ECHILD;
    take(set, m, w);
    return 0;
}

/* The lock may be given back for a while, but not when nobody waits any more. */
static void serve(aw_join_set *set, aw__wakes *wakes) {
    int out;
    for (aw__waiter *w; (w = set->waiters.first);) {
        if (aw__wakes_full(wakes)) {
            aw__unlock(&set->lock);
            aw__wakes_run(wakes);
            aw__lock(&set->lock);
        } else if ((out = try_take(w)) == -EAGAIN) {
            return;
        } else {
            aw__waiter_end(&set->waiters, w, out, wakes);
        }
    }
}

static void serve_and_unlock(aw_join_set *set) {
    aw__wakes wakes = {.count = 0};
    serve(set, &wakes);
    aw__unlock(&set->lock);
    aw__wakes_run(&wakes);
}

static void task_ended(aw__member *m, int status, int error) {
    aw_join_set *set = m->owner;
    (void)status, (void)error; /* whoever takes it joins it */
    if (aw__exchange(&m->flag, (uint32_t)TOLD) == DETACHED) return;
    aw__lock(&set->lock);
    move(set, m, m->state == FRESH ? EARLY : ENDED);
    serve_and_unlock(set);
}

/* ---- Spawning --------------------------------------------------------------------------------- */

static void list(aw_join_set *set, aw__member *m) {
    aw__lock(&set->lock);
    move(set, m, m->state == EARLY ? ENDED : RUNS);
    serve_and_unlock(set);
}

aw_future *aw_join_set_spawn_future(aw_join_set *set, aw_runtime *rt, aw_future *f, size_t size,
                                    const aw_place *place) {
    aw__member m = {.ended = task_ended, .owner = set, .state = FRESH, .flag = WATCHED};
    aw__lock(&set->lock);
    aw__store_relaxed(&set->count, set->count + 1); /* before it can end */
    aw__unlock(&set->lock);
    aw_future *task = aw__spawn_member(rt, f, size, place, &m, false);
    if (!aw__task_error(task)) {
        list(set, aw__member_of(task));
        return task;
    }
    aw__lock(&set->lock);
    aw__store_relaxed(&set->count, set->count - 1);
    serve_and_unlock(set); /* it may be empty */
    return task;
}

size_t aw_join_set_count(const aw_join_set *set) {
    return aw__load_relaxed(&set->count);
}

/* ---- All of them ------------------------------------------------------------------------------ */

/* Some at a time, so that nobody waits long for the lock. */
void aw_join_set_abort_all(aw_join_set *set) {
    for (bool more = true; more;) {
        aw__member *m = NULL;
        aw__lock(&set->lock);
        for (int i = 0; i < BATCH && (m = set->members[RUNS].first); i++) {
            move(set, m, LEAVES);
            aw__task_abort(m->task);
        }
        more = m != NULL;
        aw__unlock(&set->lock);
    }
}

/* Under the lock: put into `out` what nobody will tell us of any more. False: somebody is about to (rule 2). */
static bool let_go(aw_join_set *set, aw__members *out) {
    bool all = true;
    for (int i = RUNS; i <= ENDED; i++)
        for (aw__member *m = set->members[i].first, *next; m; m = next) {
            next = m->next;
            uint32_t watched = WATCHED;
            if (i != ENDED && !aw__cas(&m->flag, &watched, (uint32_t)DETACHED)) {
                all = false;
                continue;
            }
            move(set, m, TAKEN);
            aw__store_relaxed(&set->count, set->count - 1);
            aw__members_add(out, m);
        }
    return all;
}

void aw_join_set_detach_all(aw_join_set *set) {
    aw__members gone = {NULL, NULL};
    int tries = 0;
    aw__lock(&set->lock);
    while (!let_go(set, &gone)) {
        aw__unlock(&set->lock);
        aw__os_wait(&tries);
        aw__lock(&set->lock);
    }
    serve_and_unlock(set); /* it is empty */
    for (aw__member *m = gone.first, *next; m; m = next) {
        next = m->next;
        aw__task_drop(m->task); /* not under the lock: it may discard */
    }
}

/* ---- next ------------------------------------------------------------------------------------- */

static void give_handle(const aw_join_set_next_future *f, aw_future *task) {
    memcpy(f->handle, &task, sizeof task);
}

/* It has its result: join the task. That has ended, so it needs neither waker nor budget. */
static aw_poll finish(aw_join_set_next_future *f, const aw_cx *cx) {
    aw_cx plain = {cx->waker, cx->runtime, NULL};
    if (f->out == 0) {
        aw_future_poll(&f->join.future, &plain);
        f->out = f->join.out;
    }
    give_handle(f, f->join.task);
    return AW_READY;
}

static aw_poll next_poll(aw_future *self, aw_cx *cx) {
    aw_join_set_next_future *f = (aw_join_set_next_future *)self;
    aw_join_set *set = f->set;
    aw_poll r = aw__wait_poll((aw__waiter *)(void *)f, &set->lock, &set->waiters, try_take, cx);
    return r == AW_READY ? finish(f, cx) : AW_PENDING;
}

static aw_poll next_cancel(aw_future *self, aw_cx *cx) {
    aw_join_set_next_future *f = (aw_join_set_next_future *)self;
    aw__waiter *w = (aw__waiter *)(void *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&f->set->lock);
    bool left = aw__wait_leave(&f->set->waiters, w);
    aw__unlock(&f->set->lock);
    aw_poll r = aw__wait_cancelled(w, left, cx);
    return r == AW_READY ? finish(f, cx) : r;
}

/* Rule 4. */
static void next_discard(aw_future *self) {
    aw_join_set_next_future *f = (aw_join_set_next_future *)self;
    if (!f->join.task) return;
    aw__member *m = aw__member_of(f->join.task);
    aw_future_discard(&f->join.future);
    aw__lock(&f->set->lock);
    m->state = ENDED;
    aw__members_add_first(&f->set->members[ENDED], m);
    aw__store_relaxed(&f->set->count, f->set->count + 1);
    serve_and_unlock(f->set);
}

static void describe(const aw_join_set *const_set, char *buf, size_t size) {
    aw_join_set *set = (aw_join_set *)(uintptr_t)const_set;
    aw__text text = {buf, size, 0};
    aw__lock(&set->lock);
    aw__text_add(&text, set->count == 1 ? "%zu task" : "%zu tasks", set->count);
    aw__members_name(&text, set->members, ENDED + 1);
    aw__unlock(&set->lock);
}

static void next_describe(const aw_future *self, char *buf, size_t size) {
    describe(((const aw_join_set_next_future *)self)->set, buf, size);
}

const aw_future_type aw_join_set_next_type = {
    AW_TYPE_OF(aw_join_set_next_future, "join_set_next"),
    .flags = AW_OUT_ERRNO,
    .poll = next_poll,
    .cancel = next_cancel,
    .discard = next_discard,
    .describe = next_describe,
};

int aw__join_set_try_next(aw_join_set *set, void *handle) {
    aw_join_set_next_future f = aw__join_set_next(set, handle);
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    aw__lock(&set->lock);
    f.out = try_take((aw__waiter *)(void *)&f);
    aw__unlock(&set->lock);
    finish(&f, &cx);
    return f.out;
}

/* ---- shutdown --------------------------------------------------------------------------------- */

/* Cleaning up is not a matter of budget. */
static aw_poll next_for_free(aw_join_set_next_future *f, aw_cx *cx) {
    uint32_t budget = cx->meter ? cx->meter->budget : 0;
    if (cx->meter) cx->meter->budget = UINT32_MAX;
    aw_poll r = aw_future_poll(&f->future, cx);
    if (cx->meter) cx->meter->budget = budget;
    return r;
}

static aw_poll shutdown_poll(aw_future *self, aw_cx *cx) {
    aw_join_set_shutdown_future *f = (aw_join_set_shutdown_future *)self;
    aw_join_set *set = f->next.set;
    aw_join_set_abort_all(set);
    f->next.handle = &f->task;
    while (next_for_free(&f->next, cx) == AW_READY) {
        if (!f->task) return AW_READY;
        aw_future_discard(&f->next.join.future); /* gives the output back to the handle */
        aw__task_drop(f->task);
        f->next = aw__join_set_next(set, &f->task);
    }
    return AW_PENDING;
}

/* It is cleaning up: it goes on. */
static aw_poll shutdown_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_started(self) ? shutdown_poll(self, cx) : AW_CANCELLED;
}

static void shutdown_describe(const aw_future *self, char *buf, size_t size) {
    describe(((const aw_join_set_shutdown_future *)self)->next.set, buf, size);
}

const aw_future_type aw_join_set_shutdown_type = {
    AW_TYPE_OF(aw_join_set_shutdown_future, "join_set_shutdown"),
    .flags = AW_OUT_ERRNO,
    .poll = shutdown_poll,
    .cancel = shutdown_cancel,
    .describe = shutdown_describe,
};
