/* SPDX-License-Identifier: MIT
 *
 * Scopes. Children are tasks that report their end (task/member.h). Everything that they share
 * with the scope is under one short lock, because an end changes several things at once, and is
 * rare compared to what a task does.
 *
 *   1. Only the body and children spawn, so the scope does not end meanwhile. A child is counted
 *      before it is spawned and listed afterwards. It may have ended by then; its state says so.
 *   2. An ending child accesses the scope only under the lock. It decrements the count last and
 *      then unlocks; wakers that cannot be woken under the lock are cloned. The scope reads the
 *      count under the lock. So once it reads 0, no child touches the scope any more, and its
 *      memory may be freed.
 *   3. Only the scope's own poll cancels: the body, which it polls, and the children, which it
 *      aborts. A child with an error records it and wakes the awaiting task, if it is the first
 *      error. Other children do not wake it until the last one ends.
 *   4. Once the scope is *ending*, nothing can be spawned. Either its outcome is decided by an
 *      error, or it was cancelled from outside. In the latter case it matters whether any part was
 *      *cut*: cancelled, or not spawned.
 *   5. With a limit, a child is spawned asleep and started when there is a slot. Waiting children
 *      are started in order, so while there is one, a new child has to wait too.
 *
 * Lock order: tasks are started and aborted under the lock, which only touches queues. `describe`
 * takes the lock while locks of the runtime are held, so no task is spawned or dropped under it. */
#include <awake/scope.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/misuse.h"
#include "base/text.h"
#include "future/unstarted.h"
#include "future/waiters.h"
#include "scope/member_list.h"
#include "task/task_borrows.h"

/* `state` of a member: the list that it is in; in none from CHILD_FRESH on. */
enum {
    CHILD_RUNNING,
    CHILD_ABORTED, /* asked to end */
    CHILD_WAITING, /* for a slot */
    CHILD_FRESH,
    CHILD_ENDED
};
/* `flag` of a member. */
enum { CHILD_HAS_SLOT = 1 };
/* `state` of the scope: what its outcome will be. */
enum { SCOPE_UNOPENED, SCOPE_POLLED, SCOPE_DECIDED, SCOPE_CANCELLED };
enum { SCOPE_OPEN = 0x5c09e5, SCOPE_ABORT_BATCH = 32 };

static aw_future *body_of(const aw_scope *s) {
    return (aw_future *)(void *)((char *)(uintptr_t)s + s->body_at);
}

/* ---- Children: on any thread ----------------------------------------------------------------- */

static void child_move(aw_scope *s, aw__member *m, uint32_t to) {
    if (m->state <= CHILD_WAITING) aw__tailq_remove(&s->members[m->state], m);
    m->state = to;
    if (to <= CHILD_WAITING) aw__tailq_insert_tail(&s->members[to], m);
}

/* Under the lock: records the result of a child. */
static void note_result(aw_scope *s, int status, int error) {
    if (s->ending && status == -ECANCELED)
        s->cut = true;
    else if (error && !s->error)
        s->error = error;
}

static bool scope_has_slot(const aw_scope *s) {
    return !s->limit || s->running < s->limit;
}

/* Under the lock: starts waiting children, first come first served. */
static void start_waiting_children(aw_scope *s) {
    aw__member *m;
    while (!s->ending && scope_has_slot(s) && (m = s->members[CHILD_WAITING].first)) {
        child_move(s, m, CHILD_RUNNING);
        m->flag = CHILD_HAS_SLOT;
        s->running++;
        aw__member_start(m);
    }
}

/* What a slot waiter gets; -EAGAIN: keep waiting. */
static int slot_status(const aw_scope *s) {
    if (s->ending) return -ECANCELED;
    return scope_has_slot(s) && !s->members[CHILD_WAITING].first ? 0 : -EAGAIN;
}

/* Under the lock, which may be released for a while: ends all slot waits if there is a slot. */
static void wake_slot_waiters(aw_scope *s, aw__wakes *wakes) {
    int out;
    while (s->slot_waiters.first && (out = slot_status(s)) != -EAGAIN) {
        if (aw__wakes_full(wakes)) {
            aw__unlock(&s->lock);
            aw__wakes_run(wakes);
            aw__lock(&s->lock);
        } else {
            aw__waiter_end(&s->slot_waiters, s->slot_waiters.first, out, wakes);
        }
    }
}

static void check_still_open(const aw_scope *s, const aw__member *m) {
    if (AW__LIKELY(aw__load_acquire(&s->open) == SCOPE_OPEN)) return;
    const aw_location *location = aw__task_location(m->task);
    aw__misuse("%s:%d: the scope was left while '%s', spawned here, still ran", location->file,
               location->line, aw__task_name(m->task));
}

static void scope_child_ended(aw__member *m, int status, int error) {
    aw_scope *s = m->owner;
    aw__wakes wakes = {.count = 0};
    aw_waker later = {NULL, NULL};
    check_still_open(s, m);
    aw__lock(&s->lock);
    bool had_error = s->error;
    note_result(s, status, error);
    bool first_error = s->error && !had_error && !s->ending;
    child_move(s, m, CHILD_ENDED);
    s->running -= m->flag;
    start_waiting_children(s);
    wake_slot_waiters(s, &wakes);
    aw__store_relaxed(&s->count, s->count - 1); /* up to here the scope could not end */
    if (first_error || (s->count == 0 && s->body_ended)) aw__wake_or_clone(&s->waker, &later);
    aw__unlock(&s->lock);
    aw__wakes_run(&wakes);
    if (later.type) aw_waker_wake(later);
}

/* ---- Spawning: by the body or a child -------------------------------------------------------- */

static void check_open(const aw_scope *s, const aw_future *f, const aw_location *location) {
    if (AW__UNLIKELY(!s || aw__load_acquire(&s->open) != SCOPE_OPEN))
        aw__misuse("%s:%d: '%s' was spawned into a scope that %s", location->file, location->line,
                   f->type->name, s ? "has ended" : "has not begun");
}

/* Before the spawn. False: the scope is ending. With a limit, the child gets a slot once it is
 * listed. */
static bool scope_count_in(aw_scope *s, bool *has_slot) {
    aw__lock(&s->lock);
    bool ending = s->ending;
    *has_slot = !s->limit;
    if (ending) {
        s->cut = true;
    } else {
        aw__store_relaxed(&s->count, s->count + 1);
        s->running += *has_slot;
    }
    aw__unlock(&s->lock);
    return !ending;
}

/* The spawn has failed. A limit may have been set meanwhile, and its slot waited for. */
static void scope_count_out(aw_scope *s, bool has_slot) {
    aw__wakes wakes = {.count = 0};
    aw__lock(&s->lock);
    aw__store_relaxed(&s->count, s->count - 1);
    s->running -= has_slot;
    start_waiting_children(s);
    wake_slot_waiters(s, &wakes);
    aw__unlock(&s->lock);
    aw__wakes_run(&wakes);
}

/* After the spawn. */
static void scope_list_child(aw_scope *s, aw__member *m) {
    aw__lock(&s->lock);
    if (m->state == CHILD_FRESH)
        child_move(s, m,
                   s->ending                   ? CHILD_ABORTED
                   : m->flag == CHILD_HAS_SLOT ? CHILD_RUNNING
                                               : CHILD_WAITING);
    bool aborted = m->state == CHILD_ABORTED;
    start_waiting_children(s);
    aw__unlock(&s->lock);
    if (aborted) aw__task_abort(m->task);
}

int aw_scope_spawn_future(aw_scope *s, aw_future *f, size_t size, const aw_location *location) {
    bool has_slot;
    check_open(s, f, location);
    if (!scope_count_in(s, &has_slot)) {
        aw__cancel_unstarted(f);
        return -ECANCELED;
    }
    aw__member m = {.ended = scope_child_ended,
                    .owner = s,
                    .state = CHILD_FRESH,
                    .flag = has_slot ? CHILD_HAS_SLOT : 0};
    aw_future *task = aw__spawn_member(s->runtime, f, size, location, &m, !has_slot);
    int error = aw__task_error(task);
    if (error) {
        scope_count_out(s, has_slot);
        return error;
    }
    scope_list_child(s, aw__member_of(task));
    aw__task_drop(task);
    return 0;
}

/* ---- Limits: by the body or a child ---------------------------------------------------------- */

void aw_scope_limit(aw_scope *s, uint32_t limit) {
    aw__wakes wakes = {.count = 0};
    aw__lock(&s->lock);
    s->limit = limit;
    start_waiting_children(s);
    wake_slot_waiters(s, &wakes);
    aw__unlock(&s->lock);
    aw__wakes_run(&wakes);
}

int aw_scope_try_slot(aw_scope *s) {
    aw__lock(&s->lock);
    int out = slot_status(s);
    aw__unlock(&s->lock);
    return out;
}

static int try_slot(aw__waiter *w) {
    return slot_status(((aw_scope_slot_future *)(void *)w)->scope);
}

static aw_poll slot_poll(aw_future *self, aw_cx *cx) {
    aw_scope *s = ((aw_scope_slot_future *)self)->scope;
    return aw__wait_poll((aw__waiter *)(void *)self, &s->lock, &s->slot_waiters, try_slot, cx);
}

static aw_poll slot_cancel(aw_future *self, aw_cx *cx) {
    aw_scope *s = ((aw_scope_slot_future *)self)->scope;
    aw__waiter *w = (aw__waiter *)(void *)self;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&s->lock);
    bool dequeued = aw__wait_leave(&s->slot_waiters, w);
    aw__unlock(&s->lock);
    return aw__wait_cancelled(w, dequeued, cx);
}

const aw_future_type aw_scope_slot_type = {
    AW_TYPE_OF(aw_scope_slot_future, "scope_slot"),
    .flags = AW_OUT_ERRNO,
    .poll = slot_poll,
    .cancel = slot_cancel,
};

size_t aw_scope_count(const aw_scope *s) {
    return aw__load_relaxed(&s->count);
}

/* ---- The scope: by the task that awaits it --------------------------------------------------- */

static void open_scope(aw_scope *s, aw_cx *cx) {
    s->future.state = SCOPE_POLLED;
    s->runtime = aw_cx_runtime(cx);
    memcpy((char *)s + s->member_at, &s, sizeof s);
    aw__store_release(&s->open, (uint32_t)SCOPE_OPEN);
    aw__borrow_begin(&s->borrow, &s->future, cx);
}

/* From now on children wake the waker of this poll. Returns the first error so far. */
static int scope_set_waker(aw_scope *s, aw_cx *cx) {
    aw__borrow_polled(&s->borrow, cx);
    aw__lock(&s->lock);
    /* If another task armed the wait, in an earlier poll, it stays armed there. */
    if (s->armed && !aw_waker_will_wake(&s->waker, cx->waker)) s->armed = false;
    s->waker = *cx->waker;
    int error = s->error;
    aw__unlock(&s->lock);
    return error;
}

/* Under the lock: a child that has not been aborted yet. */
static aw__member *next_to_abort(const aw_scope *s) {
    return s->members[CHILD_WAITING].first ? s->members[CHILD_WAITING].first
                                           : s->members[CHILD_RUNNING].first;
}

/* Stops spawns and aborts all children, in batches, so that the lock is not held for long. */
static void abort_children(aw_scope *s) {
    aw__wakes wakes = {.count = 0};
    for (bool more = true; more;) {
        aw__member *m = NULL;
        aw__lock(&s->lock);
        s->ending = true;
        for (int i = 0; i < SCOPE_ABORT_BATCH && (m = next_to_abort(s)); i++) {
            child_move(s, m, CHILD_ABORTED);
            aw__task_abort(m->task);
        }
        more = m != NULL;
        wake_slot_waiters(s, &wakes);
        aw__unlock(&s->lock);
        aw__wakes_run(&wakes);
    }
}

/* Rule 4. */
static void begin_ending(aw_scope *s, uint32_t why) {
    if (s->future.state != SCOPE_POLLED) return;
    s->future.state = why;
    abort_children(s);
}

static void body_finished(aw_scope *s) {
    int error = aw_future_error(body_of(s));
    if (!error) return;
    aw__lock(&s->lock);
    if (!s->error) {
        s->error = error;
        s->body_won = true;
    }
    aw__unlock(&s->lock);
    begin_ending(s, SCOPE_DECIDED);
}

/* The body has ended. True: so have all children. */
static bool all_ended(aw_scope *s) {
    aw__lock(&s->lock);
    s->body_ended = true;
    bool last = s->count == 0;
    aw__unlock(&s->lock);
    return last;
}

static void scope_arm(aw_scope *s, aw_cx *cx) {
    if (s->armed) return;
    s->armed = true;
    s->outside = cx->runtime != s->runtime;
    if (s->outside)
        aw_cx_arm(cx);
    else
        aw_cx_arm_inside(cx);
}

static void scope_disarm(aw_scope *s, aw_cx *cx) {
    if (!s->armed) return;
    if (s->outside)
        aw_cx_disarm(cx);
    else
        aw_cx_disarm_inside(cx);
}

/* The body and all children have ended: rule 2. */
static aw_poll scope_finish(aw_scope *s, aw_cx *cx) {
    aw_future *body = body_of(s);
    bool finished = aw_future_finished(body);
    bool cancelled = s->future.state == SCOPE_CANCELLED && (s->cut || !finished);
    scope_disarm(s, cx);
    aw__borrow_end(&s->borrow, cx);
    aw__store_release(&s->open, 0u);
    s->out = s->error;
    if (finished && (cancelled || (s->error && !s->body_won))) aw_future_discard(body);
    return cancelled ? AW_CANCELLED : AW_READY;
}

/* For poll and cancel. */
static aw_poll scope_advance(aw_scope *s, aw_cx *cx) {
    aw_future *body = body_of(s);
    if (!aw_future_ended(body)) {
        aw_poll r = s->future.state == SCOPE_POLLED ? aw_future_poll(body, cx)
                                                    : aw_future_cancel(body, cx);
        if (r == AW_PENDING) return AW_PENDING;
        if (r == AW_READY) body_finished(s);
    }
    if (all_ended(s)) return scope_finish(s, cx);
    scope_arm(s, cx);
    return AW_PENDING;
}

static aw_poll scope_poll(aw_future *self, aw_cx *cx) {
    aw_scope *s = (aw_scope *)self;
    if (self->state == SCOPE_UNOPENED) open_scope(s, cx);
    if (scope_set_waker(s, cx)) begin_ending(s, SCOPE_DECIDED);
    return scope_advance(s, cx);
}

static aw_poll scope_cancel(aw_future *self, aw_cx *cx) {
    aw_scope *s = (aw_scope *)self;
    if (!aw_future_started(self)) return aw_future_cancel(body_of(s), cx);
    begin_ending(s, scope_set_waker(s, cx) ? SCOPE_DECIDED : SCOPE_CANCELLED);
    return scope_advance(s, cx);
}

static void scope_discard(aw_future *self) {
    aw_scope *s = (aw_scope *)self;
    if (s->out == 0) aw_future_discard(body_of(s));
}

static const aw_future *scope_child(const aw_future *self, size_t i) {
    const aw_future *body = body_of((const aw_scope *)self);
    return i == 0 && !aw_future_ended(body) ? body : NULL;
}

/* Only names: the frames belong to running tasks. */
static void scope_describe(const aw_future *self, char *buf, size_t size) {
    aw_scope *s = (aw_scope *)(uintptr_t)self;
    aw__text text = {buf, size, 0};
    if (!aw_future_started(self)) return;
    aw__lock(&s->lock);
    aw__text_add(&text, s->count == 1 ? "%zu child" : "%zu children", s->count);
    aw__members_name(&text, s->members, CHILD_WAITING + 1);
    aw__unlock(&s->lock);
}

const aw_future_type aw_scope_type = {
    .self_size = sizeof(aw_future_type),
    .name = "scope",
    .out_offset = offsetof(aw_scope, out),
    .out_size = sizeof(int),
    .flags = AW_OUT_ERRNO,
    .poll = scope_poll,
    .cancel = scope_cancel,
    .discard = scope_discard,
    .child = scope_child,
    .describe = scope_describe,
};
