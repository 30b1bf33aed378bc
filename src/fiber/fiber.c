/* SPDX-License-Identifier: MIT
 *
 * Fibers as futures. See fiber.h for how a poll and a stack belong together. */
#include "fiber/fiber.h"

#include <awake/task.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/atomic.h"
#include "core/misuse.h"

enum { /* state of the frame */
       FRESH,
       ENTERED,
       DROPPED, /* there was no memory for a stack, and the arguments are gone */
       REFUSED  /* the same, because there are too many */
};

enum { IGNORED_MAX = 1000, PAINT = 0xa5 };

_Thread_local aw__fiber *aw__fiber_here;

static uint32_t measuring; /* atomic */

static const aw__fiber_def *def_of(const aw_future *self) {
    return self->type->extra;
}

/* ---- Inside: what the body calls -------------------------------------------------------------- */

/* The fiber that calls, which must not be polling something. */
static aw__fiber *running(const char *what, const char *file, int line) {
    aw__fiber *f = aw__fiber_here;
    if (AW__UNLIKELY(!f || f->child))
        aw__misuse("%s:%d: %s outside a fiber%s", file, line, what,
                   f ? ": this is the poll of something that a fiber awaits" : "");
    f->file = file;
    f->line = line;
    return f;
}

/* An await is to be cancelled and not polled. */
static inline bool cut_here(const aw__fiber *f) {
    return AW__UNLIKELY(aw_future_cancelling(&f->frame->future)) && !f->shields;
}

static inline void leave(aw__fiber *f) {
    aw__fiber_here = f->outer;
    f->cx = NULL;
}

/* The poll returns AW_PENDING; the next call that has an answer for the await goes on behind this. `error`
 * is the fiber's errno, from before it polled anything. */
static inline int suspend(aw__fiber *f, enum aw__fiber_wait wait, int error) {
    f->error = error;
    f->wait = wait;
    leave(f);
    return (int)aw__side_switch(&f->inside, &f->outside, AW_PENDING);
}

/* An await has been cancelled. */
static void cut(aw__fiber *f, aw_cx *cx) {
    f->cut = true;
    if (++f->refused == IGNORED_MAX)
        aw__rt_log(
            cx->runtime, AW_LOG_PROBLEM,
            "fiber '%s' has been cancelled, and has ignored it in %d awaits since; now at %s:%d",
            f->frame->future.type->name, IGNORED_MAX, f->file, f->line);
}

/* An await while the fiber is being cancelled: the child, if there is one, is cancelled. */
static AW__COLD int await_cancelled(aw__fiber *f, aw_future *child) {
    int error = *f->pool->error;
    if (child) {
        f->child = child;
        aw_poll r = aw__cancel_at(child, f->cx, f->file, f->line);
        if (r == AW_PENDING) return suspend(f, AW__WAIT_CHILD, error);
        f->child = NULL;
        if (r == AW_READY) return 0;
    }
    cut(f, f->cx);
    aw_cx_yield(f->cx);
    return suspend(f, AW__WAIT_REFUSED, error);
}

int aw_fiber_await(aw_future *child, const char *file, int line) {
    aw__fiber *f = running("an await", file, line);
    int error = *f->pool->error;
    if (cut_here(f)) return await_cancelled(f, child);
    f->child = child;
    if (aw__poll_at(child, f->cx, file, line) == AW_PENDING)
        return suspend(f, AW__WAIT_CHILD, error);
    f->child = NULL;
    return 0;
}

int aw__fiber_yield(const char *file, int line) {
    aw__fiber *f = running("aw_fiber_yield", file, line);
    int error = *f->pool->error;
    if (cut_here(f)) return await_cancelled(f, NULL);
    aw_cx_yield(f->cx);
    return suspend(f, AW__WAIT_YIELD, error);
}

int aw__fiber_fail(int code, const char *file, int line) {
    aw__fiber *f = running("aw_fiber_fail", file, line);
    if (f->shields)
        aw__misuse("%s:%d: aw_fiber_fail inside AW_SHIELD: cleanup cannot fail the task", file,
                   line);
    aw__fail(f->cx, code, file, line);
    return cut_here(f) ? await_cancelled(f, NULL) : suspend(f, AW__WAIT_FAILING, *f->pool->error);
}

bool aw_cancelled(void) {
    const aw__fiber *f = aw__fiber_here;
    return f && !f->child && aw_future_cancelling(&f->frame->future);
}

aw_cx *aw_fiber_cx(void) {
    const aw__fiber *f = aw__fiber_here;
    return f && !f->child ? f->cx : NULL;
}

aw__shield aw__shield_begin(const char *file, int line) {
    aw__fiber *f = running("AW_SHIELD", file, line);
    f->shields++;
    return (aw__shield){f};
}

void aw__shield_end(aw__shield *shield) {
    shield->fiber->shields--;
}

/* ---- Between: entering and leaving ------------------------------------------------------------ */

/* From low to the first byte that is not painted: what was never used. */
static AW__COLD void measure(const aw__fiber *f) {
    const char *end = (const char *)f, *p = f->stack->low;
    aw__side_open(f->stack->low, f->stack->high);
    while (p < end && (unsigned char)*p == PAINT)
        p++;
    size_t used = (size_t)(f->stack->high - p),
           *mark = &def_of(&f->frame->future)->info->high_water;
    size_t most = aw__load_relaxed(mark);
    while (used > most && !aw__cas(mark, &most, used)) {
    }
}

/* The body has returned; on the stack of the poll. */
static int finish(void *arg) {
    aw__fiber *f = arg;
    struct aw__fiber_frame *frame = f->frame;
    bool was_cut = f->cut;
    if (f->measured) measure(f);
    aw__side_end(&f->inside, f->stack->low, f->stack->high);
    frame->aw_fiber = NULL;
    aw__stack_give(f->pool, f->stack);
    if (!was_cut) return AW_READY;
    aw_future_discard(&frame->future);
    return AW_CANCELLED;
}

/* Its locals are gone: they cannot be looked at any more. */
static AW__COLD void bad_return(const aw__fiber *f) {
    aw__misuse(
        "%s:%d: fiber '%s' has returned, after this await, while a scope or stream among its "
        "locals was open: wait for it, cancel it or close it first",
        f->file ? f->file : "?", f->line, f->frame->future.type->name);
}

/* The bottom of a fiber's stack. */
static void entry(void *arg) {
    aw__fiber *f = arg;
    aw__side_arrived(&f->inside, &f->outside);
    def_of(&f->frame->future)->run(&f->frame->future);
    if (AW_CHECKS && AW__UNLIKELY(aw__load_relaxed(&f->opened))) bad_return(f);
    if (AW__UNLIKELY(f->place != 0)) aw__stack_place_give(f->cx->runtime, f->place);
    leave(f);
    aw__side_switch_last(&f->inside, &f->outside, finish, f);
}

/* Run the body until it waits or returns; its await returns `answer`. */
static inline aw_poll enter(aw__fiber *f, aw_cx *cx, int answer) {
    f->cx = cx;
    f->outer = aw__fiber_here;
    aw__fiber_here = f;
    *f->pool->error = f->error;
    return (aw_poll)aw__side_switch(&f->outside, &f->inside, answer);
}

/* ---- Outside: the future ---------------------------------------------------------------------- */

static void drop(aw_future *self) {
    const aw__fiber_info *info = def_of(self)->info;
    if (info->drop) info->drop(self);
}

static AW__COLD aw_poll without_stack(aw_future *self, aw_cx *cx, int error) {
    void *out = aw_future_out(self);
    drop(self);
    memset(out, 0, self->type->out_size);
    if (self->type->flags & AW_OUT_ERRNO) {
        switch (self->type->out_size) {
        case 1: *(signed char *)out = (signed char)error; break;
        case 2: *(short *)out = (short)error; break;
        case 4: *(int32_t *)out = error; break;
        default: *(int64_t *)out = error; break;
        }
        return AW_READY;
    }
    self->state = error == -EAGAIN ? REFUSED : DROPPED;
    if (aw_fail(cx, error) == 0) return AW_PENDING;
    return aw__fiber_poll(self, cx);
}

/* NULL: `why` says why. */
static aw__fiber *start(struct aw__fiber_frame *frame, aw_cx *cx, int *why) {
    size_t size = frame->stack_size                    ? frame->stack_size
                  : cx->meter && cx->meter->stack_size ? cx->meter->stack_size
                                                       : AW__STACK_DEFAULT;
    int error = errno; /* before it is used to look for a stack */
    uint64_t place;
    *why = -EAGAIN;
    if (!aw__stack_place_take(cx->runtime, &place)) return NULL;
    aw__stacks *pool = aw__stacks_get();
    aw__stack *stack = pool ? aw__stack_take(pool, size) : NULL;
    if (!stack) {
        aw__stack_place_give(cx->runtime, place);
        *why = -ENOMEM;
        return NULL;
    }
    aw__fiber *f = (aw__fiber *)(((uintptr_t)stack->top - sizeof *f) & ~(uintptr_t)63);
    memset(f, 0, sizeof *f);
    f->frame = frame;
    f->stack = stack;
    f->place = place;
    f->pool = pool;
    f->error = error;
    f->measured = aw__load_relaxed(&measuring);
    if (f->measured) {
        aw__side_open(stack->low, f);
        memset(stack->low, PAINT, (size_t)((char *)f - stack->low));
    }
    aw__side_init(&f->inside, stack->low, f, entry, f);
    if (cx->meter) cx->meter->pinned = true;
    frame->aw_fiber = f;
    frame->future.state = ENTERED;
    return f;
}

static AW__COLD void bad_poll(const aw__fiber *f) {
    if (f->cx)
        aw__misuse("fiber '%s' was polled while it runs, by itself", f->frame->future.type->name);
    aw__misuse("fiber '%s' was first polled by another thread: fibers stay on theirs",
               f->frame->future.type->name);
}

static inline void check(const aw__fiber *f) {
    if (AW__UNLIKELY(f->pool != aw__stacks_here || f->cx)) bad_poll(f);
}

/* The child, polled or cancelled, has answered; go on when that is an answer. */
static inline aw_poll answered(aw__fiber *f, aw_cx *cx, aw_poll r) {
    if (r == AW_PENDING) return AW_PENDING;
    f->child = NULL;
    if (AW__LIKELY(r == AW_READY)) return enter(f, cx, 0);
    cut(f, cx);
    return enter(f, cx, -ECANCELED);
}

static __attribute__((noinline)) aw_poll first_poll(aw_future *self, aw_cx *cx) {
    if (AW__UNLIKELY(self->state != FRESH)) {
        if (cx->meter && cx->meter->fail) return AW_PENDING; /* twice in one poll */
        /* Nobody to tell: a hand-made executor, or the cleanup of a task. */
        aw__rt_log(cx->runtime, AW_LOG_PROBLEM,
                   self->state == REFUSED ? "too many stacks: there is none for fiber '%s'"
                                          : "no memory for the stack of fiber '%s'",
                   self->type->name);
        return AW_READY;
    }
    int why;
    aw__fiber *f = start((struct aw__fiber_frame *)self, cx, &why);
    return f ? enter(f, cx, 0) : without_stack(self, cx, why);
}

static __attribute__((noinline)) aw_poll poll_child(aw__fiber *f, aw_cx *cx) {
    return answered(f, cx, aw__poll_at(f->child, cx, f->file, f->line));
}

/* The rest is apart, so that a fiber that has yielded is entered without saving a register. */
aw_poll aw__fiber_poll(aw_future *self, aw_cx *cx) {
    aw__fiber *f = ((struct aw__fiber_frame *)self)->aw_fiber;
    if (AW__UNLIKELY(!f)) return first_poll(self, cx);
    check(f);
    if (f->wait == AW__WAIT_CHILD) return poll_child(f, cx);
    if (AW__UNLIKELY(f->wait == AW__WAIT_FAILING)) {
        if (cx->meter && cx->meter->fail) return AW_PENDING;
        aw__misuse(
            "%s:%d: aw_fiber_fail in fiber '%s', which is awaited by cleanup: that cannot fail "
            "the task",
            f->file, f->line, self->type->name);
    }
    return enter(f, cx, 0);
}

aw_poll aw__fiber_cancel(aw_future *self, aw_cx *cx) {
    struct aw__fiber_frame *frame = (struct aw__fiber_frame *)self;
    aw__fiber *f = frame->aw_fiber;
    if (!f) {
        if (self->state == FRESH) drop(self);
        return AW_CANCELLED;
    }
    if (f->shields) return aw__fiber_poll(self, cx);
    check(f);
    if (f->wait == AW__WAIT_CHILD)
        return answered(f, cx, aw__cancel_at(f->child, cx, f->file, f->line));
    if (f->wait != AW__WAIT_REFUSED) cut(f, cx);
    return enter(f, cx, -ECANCELED);
}

const aw_future *aw__fiber_child(const aw_future *self, size_t i) {
    const struct aw__fiber_frame *frame = (const struct aw__fiber_frame *)self;
    return i == 0 && frame->aw_fiber ? frame->aw_fiber->child : NULL;
}

void aw__fiber_describe(const aw_future *self, char *buf, size_t size) {
    const aw__fiber *f = ((const struct aw__fiber_frame *)self)->aw_fiber;
    if (f && f->file) snprintf(buf, size, "waits at %s:%d", f->file, f->line);
}

void aw_fiber_measure(bool on) {
    aw__store_relaxed(&measuring, (uint32_t)on);
}

size_t aw_fiber_high_water(const aw_future_type *type) {
    const aw__fiber_def *def = type->extra;
    return aw__load_relaxed(&def->info->high_water);
}

/* ---- A function and a pointer ----------------------------------------------------------------- */

static void plain_run(aw_future *self) {
    aw_fiber *f = (aw_fiber *)self;
    f->out = f->main(f->arg);
}

static void plain_drop(aw_future *self) {
    aw_fiber *f = (aw_fiber *)self;
    if (f->drop) f->drop(f->arg);
}

static aw__fiber_info plain_info = {plain_drop, 0};
static const aw__fiber_def plain_def = {plain_run, &plain_info};

const aw_future_type aw_fiber_type = {
    AW_TYPE_OF(aw_fiber, "fiber"), .flags = AW__PINNED | AW_OUT_ERRNO,
    .poll = aw__fiber_poll,        .cancel = aw__fiber_cancel,
    .child = aw__fiber_child,      .describe = aw__fiber_describe,
    .extra = &plain_def,
};
