/* SPDX-License-Identifier: MIT
 *
 * Scopes. Children are tasks that tell their end (runtime/member.h); everything that they and the scope
 * share is under one short lock, because an end changes several things at once, and is rare beside what a
 * task does.
 *
 *   1. Who spawns is the body or a child, so the scope is not over meanwhile. A child is counted before it is
 *      spawned and listed after it: it may have ended by then, and says so in its state.
 *   2. All that a child does to the scope when it ends it does under the lock. It counts itself out last, and
 *      then unlocks; wakers that cannot be woken there are cloned. The scope looks at the count under the
 *      lock. So when it has seen that nobody is left, nobody touches it any more, and its memory may go.
 *   3. Only the scope's own poll cancels: the body, which it holds, and the children, whom it asks to end. A
 *      child with an error writes it down, and wakes who awaits the scope. The others wake nobody until the
 *      last one.
 *   4. From the moment at which the scope is *ending* nothing can be spawned. It is decided, by an error, or
 *      cancelled from outside; then it matters whether any part was *cut*.
 *   5. With a limit a child is spawned asleep, and started when there is a place. Those that wait are started
 *      in order; so while there is one, a new child has to wait too.
 *
 * Lock order: a child's task is started or aborted under the lock, which touches queues only; `describe`
 * takes it with locks of the runtime held, so nothing is spawned or given back under it. */
#include <awake/scope.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/misuse.h"
#include "core/unstarted.h"
#include "runtime/opened.h"
#include "scope/members.h"
#include "sync/waiters.h"

enum { /* state of a member: which list it is in, or in none */
       RUNS,
       LEAVES, /* asked to end */
       WAITS,  /* for a place */
       FRESH,
       ENDED
};
enum { BEGUN = 1 }; /* flag of a member: it has a place */
/* state of the scope: what its end will be */
enum { UNOPENED, POLLED, DECIDED, CANCELLED_OUTSIDE };
enum { OPEN = 0x5c09e5, BATCH = 32 };

static aw_future *body_of(const aw_scope *s) {
    return (aw_future *)(void *)((char *)(uintptr_t)s + s->body_at);
}

/* ---- Children: by any thread ------------------------------------------------------------------ */

static void move(aw_scope *s, aw__member *m, uint32_t to) {
    if (m->state <= WAITS) aw__members_remove(&s->members[m->state], m);
    m->state = to;
    if (to <= WAITS) aw__members_add(&s->members[to], m);
}

/* A child has ended, and the scope has heard of it. Under the lock. */
static void note(aw_scope *s, int status, int error) {
    if (s->ending && status == -ECANCELED)
        s->cut = true;
    else if (error && !s->error)
        s->error = error;
}

static bool has_room(const aw_scope *s) {
    return !s->limit || s->running < s->limit;
}

/* Under the lock: those that wait for a place, first come first served. */
static void let_run(aw_scope *s) {
    aw__member *m;
    while (!s->ending && has_room(s) && (m = s->members[WAITS].first)) {
        move(s, m, RUNS);
        m->flag = BEGUN;
        s->running++;
        aw__member_start(m);
    }
}

/* What somebody who waits for room is told: -EAGAIN: nothing yet. */
static int look_for_room(const aw_scope *s) {
    if (s->ending) return -ECANCELED;
    return has_room(s) && !s->members[WAITS].first ? 0 : -EAGAIN;
}

/* Under the lock, which may be given back for a while: tell all that wait for room if there is some. */
static void tell_rooms(aw_scope *s, aw__wakes *wakes) {
    int out;
    while (s->rooms.first && (out = look_for_room(s)) != -EAGAIN) {
        if (aw__wakes_full(wakes)) {
            aw__unlock(&s->lock);
            aw__wakes_run(wakes);
            aw__lock(&s->lock);
        } else {
            aw__waiter_end(&s->rooms, s->rooms.first, out, wakes);
        }
    }
}

static void check_left(const aw_scope *s, const aw__member *m) {
    if (AW__LIKELY(aw__load_acquire(&s->open) == OPEN)) return;
    const aw_place *place = aw__task_place(m->task);
    aw__misuse("%s:%d: the scope was left while '%s', spawned here, still ran", place->file,
               place->line, aw__task_name(m->task));
}

static void child_ended(aw__member *m, int status, int error) {
    aw_scope *s = m->owner;
    aw__wakes wakes = {.count = 0};
    aw_waker later = {NULL, NULL};
    check_left(s, m);
    aw__lock(&s->lock);
    bool had_error = s->error;
    note(s, status, error);
    bool first_error = s->error && !had_error && !s->ending;
    move(s, m, ENDED);
    s->running -= m->flag;
    let_run(s);
    tell_rooms(s, &wakes);
    aw__store_relaxed(&s->count, s->count - 1); /* until now the scope could not go away */
    if (first_error || (s->count == 0 && s->body_ended)) aw__wake_or_clone(&s->waker, &later);
    aw__unlock(&s->lock);
    aw__wakes_run(&wakes);
    if (later.type) aw_waker_wake(later);
}

/* ---- Spawning: by the body or a child --------------------------------------------------------- */

static void check_open(const aw_scope *s, const aw_future *f, const aw_place *place) {
    if (AW__UNLIKELY(!s || aw__load_acquire(&s->open) != OPEN))
        aw__misuse("%s:%d: '%s' was spawned into a scope that %s", place->file, place->line,
                   f->type->name, s ? "has ended" : "has not begun");
}

/* Before the spawn. False: it is ending. With a limit it waits until it is listed. */
static bool count_in(aw_scope *s, bool *begins) {
    aw__lock(&s->lock);
    bool ending = s->ending;
    *begins = !s->limit;
    if (ending) {
        s->cut = true;
    } else {
        aw__store_relaxed(&s->count, s->count + 1);
        s->running += *begins;
    }
    aw__unlock(&s->lock);
    return !ending;
}

static void count_out(aw_scope *s, bool begun) {
    aw__lock(&s->lock);
    aw__store_relaxed(&s->count, s->count - 1);
    s->running -= begun;
    aw__unlock(&s->lock);
}

/* After it. */
static void list(aw_scope *s, aw__member *m) {
    aw__lock(&s->lock);
    if (m->state == FRESH) move(s, m, s->ending ? LEAVES : m->flag == BEGUN ? RUNS : WAITS);
    bool leaves = m->state == LEAVES;
    let_run(s);
    aw__unlock(&s->lock);
    if (leaves) aw__task_abort(m->task);
}

int aw_scope_spawn_future(aw_scope *s, aw_future *f, size_t size, const aw_place *place) {
    bool begins;
    check_open(s, f, place);
    if (!count_in(s, &begins)) {
        aw__cancel_unstarted(f);
        return -ECANCELED;
    }
    aw__member m = {.ended = child_ended, .owner = s, .state = FRESH, .flag = begins ? BEGUN : 0};
    aw_future *task = aw__spawn_member(s->runtime, f, size, place, &m, !begins);
    int error = aw__task_error(task);
    if (error) {
        count_out(s, begins);
        return error;
    }
    list(s, aw__member_of(task));
    aw__task_drop(task);
    return 0;
}

/* ---- Limits: by the same ---------------------------------------------------------------------- */

void aw_scope_limit(aw_scope *s, uint32_t limit) {
    aw__wakes wakes = {.count = 0};
    aw__lock(&s->lock);
    s->limit = limit;
    let_run(s);
    tell_rooms(s, &wakes);
    aw__unlock(&s->lock);
    aw__wakes_run(&wakes);
}

int aw_scope_try_room(aw_scope *s) {
    aw__lock(&s->lock);
    int out = look_for_room(s);
    aw__unlock(&s->lock);
    return out;
}

static int try_room(aw__waiter *w) {
    return look_for_room(((aw_scope_room_future *)(void *)w)->scope);
}

static aw_poll room_poll(aw_future *self, aw_cx *cx) {
    aw_scope *s = ((aw_scope_room_future *)self)->scope;
    return aw__wait_poll((aw__waiter *)(void *)self, &s->lock, &s->rooms, try_room, cx);
}

static aw_poll room_cancel(aw_future *self, aw_cx *cx) {
    aw_scope *s = ((aw_scope_room_future *)self)->scope;
    aw__waiter *w = (aw__waiter *)(void *)self;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&s->lock);
    bool left = aw__wait_leave(&s->rooms, w);
    aw__unlock(&s->lock);
    return aw__wait_cancelled(w, left, cx);
}

const aw_future_type aw_scope_room_type = {
    AW_TYPE_OF(aw_scope_room_future, "scope_room"),
    .flags = AW_OUT_ERRNO,
    .poll = room_poll,
    .cancel = room_cancel,
};

size_t aw_scope_count(const aw_scope *s) {
    return aw__load_relaxed(&s->count);
}

/* ---- The scope: by who awaits it -------------------------------------------------------------- */

static void open_scope(aw_scope *s, aw_cx *cx) {
    s->future.state = POLLED;
    s->runtime = aw_cx_runtime(cx);
    memcpy((char *)s + s->member_at, &s, sizeof s);
    aw__store_release(&s->open, (uint32_t)OPEN);
    aw__open_begin(&s->opened, &s->future, cx);
}

/* From now on this poll's waker is woken. Returns the first error, so far. */
static int listen(aw_scope *s, aw_cx *cx) {
    aw__open_polled(&s->opened, cx);
    aw__lock(&s->lock);
    /* A wait that another task armed, before this was polled here, stays with that task. */
    if (s->armed && !aw_waker_will_wake(&s->waker, cx->waker)) s->armed = false;
    s->waker = *cx->waker;
    int error = s->error;
    aw__unlock(&s->lock);
    return error;
}

/* Under the lock: one that has not been asked to end. */
static aw__member *next_to_leave(const aw_scope *s) {
    return s->members[WAITS].first ? s->members[WAITS].first : s->members[RUNS].first;
}

/* Nothing new; all children are asked to end, some at a time, so that nobody waits long for the lock. */
static void end_children(aw_scope *s) {
    aw__wakes wakes = {.count = 0};
    for (bool more = true; more;) {
        aw__member *m = NULL;
        aw__lock(&s->lock);
        s->ending = true;
        for (int i = 0; i < BATCH && (m = next_to_leave(s)); i++) {
            move(s, m, LEAVES);
            aw__task_abort(m->task);
        }
        more = m != NULL;
        tell_rooms(s, &wakes);
        aw__unlock(&s->lock);
        aw__wakes_run(&wakes);
    }
}

/* Rule 4: what it will be is known from here on, or that it was cancelled. */
static void begin_end(aw_scope *s, uint32_t why) {
    if (s->future.state != POLLED) return;
    s->future.state = why;
    end_children(s);
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
    begin_end(s, DECIDED);
}

static bool is_last(aw_scope *s) {
    aw__lock(&s->lock);
    s->body_ended = true;
    bool last = s->count == 0;
    aw__unlock(&s->lock);
    return last;
}

static void arm(aw_scope *s, aw_cx *cx) {
    if (s->armed) return;
    s->armed = true;
    s->outside = cx->runtime != s->runtime;
    if (s->outside)
        aw_cx_arm(cx);
    else
        aw_cx_arm_inside(cx);
}

static void disarm(aw_scope *s, aw_cx *cx) {
    if (!s->armed) return;
    if (s->outside)
        aw_cx_disarm(cx);
    else
        aw_cx_disarm_inside(cx);
}

/* Everybody has left: rule 2. */
static aw_poll finish(aw_scope *s, aw_cx *cx) {
    aw_future *body = body_of(s);
    bool finished = aw_future_finished(body);
    bool gone = s->future.state == CANCELLED_OUTSIDE && (s->cut || !finished);
    disarm(s, cx);
    aw__open_end(&s->opened, cx);
    aw__store_release(&s->open, 0u);
    s->out = s->error;
    if (finished && (gone || (s->error && !s->body_won))) aw_future_discard(body);
    return gone ? AW_CANCELLED : AW_READY;
}

/* Poll or cancel. */
static aw_poll advance(aw_scope *s, aw_cx *cx) {
    aw_future *body = body_of(s);
    if (!aw_future_ended(body)) {
        aw_poll r = s->future.state == POLLED ? aw_future_poll(body, cx)
                                              : aw_future_cancel(body, cx);
        if (r == AW_PENDING) return AW_PENDING;
        if (r == AW_READY) body_finished(s);
    }
    if (is_last(s)) return finish(s, cx);
    arm(s, cx);
    return AW_PENDING;
}

static aw_poll scope_poll(aw_future *self, aw_cx *cx) {
    aw_scope *s = (aw_scope *)self;
    if (self->state == UNOPENED) open_scope(s, cx);
    if (listen(s, cx)) begin_end(s, DECIDED);
    return advance(s, cx);
}

static aw_poll scope_cancel(aw_future *self, aw_cx *cx) {
    aw_scope *s = (aw_scope *)self;
    if (!aw_future_started(self)) return aw_future_cancel(body_of(s), cx);
    begin_end(s, listen(s, cx) ? DECIDED : CANCELLED_OUTSIDE);
    return advance(s, cx);
}

static void scope_discard(aw_future *self) {
    aw_scope *s = (aw_scope *)self;
    if (s->out == 0) aw_future_discard(body_of(s));
}

static const aw_future *scope_child(const aw_future *self, size_t i) {
    const aw_future *body = body_of((const aw_scope *)self);
    return i == 0 && !aw_future_ended(body) ? body : NULL;
}

/* Their frames are theirs: only names. */
static void scope_describe(const aw_future *self, char *buf, size_t size) {
    aw_scope *s = (aw_scope *)(uintptr_t)self;
    aw__text text = {buf, size, 0};
    if (!aw_future_started(self)) return;
    aw__lock(&s->lock);
    aw__text_add(&text, s->count == 1 ? "%zu child" : "%zu children", s->count);
    aw__members_name(&text, s->members, WAITS + 1);
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
