/* SPDX-License-Identifier: MIT
 *
 * Fibers as futures: see fiber_state.h for how a poll uses a stack. A fiber is polled and cancelled
 * by the thread that first polled it. */
#include "fiber/fiber_state.h"

#include <awake/task.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/misuse.h"
#include "context/context.h"

enum { /* state of the future */
       FIBER_FRESH,
       FIBER_ENTERED,
       FIBER_NO_MEMORY, /* no memory for a stack: the arguments are dropped */
       FIBER_OVER_LIMIT /* the same, at the limit of the runtime */
};

enum { IGNORED_MAX = 1000, PAINT = 0xa5 };

_Thread_local aw__fiber *aw__fiber_current;

static uint32_t measuring; /* atomic */

static const aw__fiber_def *def_of(const aw_future *self) {
    return self->type->extra;
}

/* ---- Called by the body ---------------------------------------------------------------------- */

/* The child of a fiber in aw_block_in_place, so that reports name it. */
static const aw_future_type blocking_type = {
    .self_size = sizeof(aw_future_type), .name = "aw_block_in_place", .size = sizeof(aw_future)};
static aw_future blocking = AW_FUTURE_INIT(&blocking_type);

bool aw__fiber_blocks(aw__fiber *f) {
    if (!f || f->child) return false;
    f->child = &blocking;
    return true;
}

static AW__COLD void bad_call(const aw__fiber *f, const char *what, const char *file, int line) {
    if (f && f->child == &blocking)
        aw__misuse("%s:%d: %s inside aw_block_in_place: use aw_wait there", file, line, what);
    aw__misuse("%s:%d: %s outside a fiber%s", file, line, what,
               f ? ": this is the poll of something that a fiber awaits" : "");
}

/* The calling fiber. Misuse if there is none, or if it is polling its child. */
static aw__fiber *running_fiber(const char *what, const char *file, int line) {
    aw__fiber *f = aw__fiber_current;
    if (AW__UNLIKELY(!f || f->child)) bad_call(f, what, file, line);
    f->file = file;
    f->line = line;
    return f;
}

/* Whether an await cancels its child instead of polling it. */
static inline bool must_cancel_await(const aw__fiber *f) {
    return AW__UNLIKELY(aw_future_cancelling(&f->frame->future)) && !f->shields;
}

static inline void fiber_leave(aw__fiber *f) {
    aw__fiber_current = f->outer;
    f->cx = NULL;
}

/* Makes the poll return AW_PENDING. Returns when a later poll or cancel has a result for the await.
 * `error` is the fiber's errno, read before it polled the child. */
static inline int fiber_suspend(aw__fiber *f, enum aw__fiber_wait wait, int error) {
    f->error = error;
    f->wait = wait;
    fiber_leave(f);
    return (int)aw__side_switch(&f->inside, &f->outside, AW_PENDING);
}

/* Records a cancelled await. Reports a fiber that has ignored IGNORED_MAX of them. */
static void count_cancelled_await(aw__fiber *f, aw_cx *cx) {
    f->await_cancelled = true;
    if (++f->cancelled_awaits == IGNORED_MAX)
        aw__rt_log(
            cx->runtime, AW_LOG_PROBLEM,
            "fiber '%s' has been cancelled, and has ignored it in %d awaits since; now at %s:%d",
            f->frame->future.type->name, IGNORED_MAX, f->file, f->line);
}

/* An await while the fiber is being cancelled. Cancels the child, if there is one. */
static AW__COLD int await_during_cancel(aw__fiber *f, aw_future *child) {
    int error = *f->pool->error;
    if (child) {
        f->child = child;
        aw_poll r = aw__cancel_at(child, f->cx, f->file, f->line);
        if (r == AW_PENDING) return fiber_suspend(f, AW__WAIT_CHILD, error);
        f->child = NULL;
        if (r == AW_READY) return 0;
    }
    count_cancelled_await(f, f->cx);
    aw_cx_yield(f->cx);
    return fiber_suspend(f, AW__WAIT_REFUSED, error);
}

int aw_fiber_await(aw_future *child, const char *file, int line) {
    aw__fiber *f = running_fiber("an await", file, line);
    int error = *f->pool->error;
    if (must_cancel_await(f)) return await_during_cancel(f, child);
    f->child = child;
    if (aw__poll_at(child, f->cx, file, line) == AW_PENDING)
        return fiber_suspend(f, AW__WAIT_CHILD, error);
    f->child = NULL;
    return 0;
}

int aw__fiber_yield(const char *file, int line) {
    aw__fiber *f = running_fiber("aw_fiber_yield", file, line);
    int error = *f->pool->error;
    if (must_cancel_await(f)) return await_during_cancel(f, NULL);
    aw_cx_yield(f->cx);
    return fiber_suspend(f, AW__WAIT_YIELD, error);
}

int aw__fiber_fail(int code, const char *file, int line) {
    aw__fiber *f = running_fiber("aw_fiber_fail", file, line);
    if (f->shields)
        aw__misuse("%s:%d: aw_fiber_fail inside AW_SHIELD: cleanup cannot fail the task", file,
                   line);
    aw__fail(f->cx, code, file, line);
    return must_cancel_await(f) ? await_during_cancel(f, NULL)
                                : fiber_suspend(f, AW__WAIT_FAILING, *f->pool->error);
}

bool aw_cancelled(void) {
    const aw__fiber *f = aw__fiber_current;
    return f && (!f->child || f->child == &blocking) && aw_future_cancelling(&f->frame->future);
}

aw_cx *aw_fiber_cx(void) {
    const aw__fiber *f = aw__fiber_current;
    return f && !f->child ? f->cx : NULL;
}

aw__shield aw__shield_begin(const char *file, int line) {
    aw__fiber *f = running_fiber("AW_SHIELD", file, line);
    f->shields++;
    return (aw__shield){f};
}

void aw__shield_end(aw__shield *shield) {
    shield->fiber->shields--;
}

/* ---- Switching to the body and back ---------------------------------------------------------- */

/* The bytes from `low` up to the first one that is not painted were never used. */
static AW__COLD void measure_stack(const aw__fiber *f) {
    const char *end = (const char *)f, *p = f->stack->low;
    aw__side_unpoison(f->stack->low, f->stack->high);
    while (p < end && (unsigned char)*p == PAINT)
        p++;
    size_t used = (size_t)(f->stack->high - p),
           *mark = &def_of(&f->frame->future)->info->high_water;
    size_t max = aw__load_relaxed(mark);
    while (used > max && !aw__cas(mark, &max, used)) {
    }
}

/* Called after the body has returned, on the stack of the poll. */
static int fiber_finish(void *arg) {
    aw__fiber *f = arg;
    struct aw__fiber_frame *frame = f->frame;
    bool cancelled = f->await_cancelled;
    if (f->measured) measure_stack(f);
    aw__side_end(&f->inside, f->stack->low, f->stack->high);
    frame->aw_fiber = NULL;
    aw__stack_free(f->pool, f->stack);
    if (!cancelled) return AW_READY;
    aw_future_discard(&frame->future);
    return AW_CANCELLED;
}

/* The locals are gone, so the report cannot name the open object. */
static AW__COLD void bad_return(const aw__fiber *f) {
    aw__misuse(
        "%s:%d: fiber '%s' has returned, after this await, while a scope or stream among its "
        "locals was open: wait for it, cancel it or close it first",
        f->file ? f->file : "?", f->line, f->frame->future.type->name);
}

/* The first function on a fiber's stack. */
static void fiber_entry(void *arg) {
    aw__fiber *f = arg;
    aw__side_arrived(&f->inside, &f->outside);
    def_of(&f->frame->future)->run(&f->frame->future);
    if (AW_CHECKS && AW__UNLIKELY(aw__load_relaxed(&f->borrows))) bad_return(f);
    if (AW__UNLIKELY(f->stack_permit != 0)) aw__stack_permit_give(f->cx->runtime, f->stack_permit);
    fiber_leave(f);
    aw__side_switch_last(&f->inside, &f->outside, fiber_finish, f);
}

/* Runs the body until it waits or returns. The await that it is suspended in returns `result`. */
static inline aw_poll fiber_enter(aw__fiber *f, aw_cx *cx, int result) {
    f->cx = cx;
    f->outer = aw__fiber_current;
    aw__fiber_current = f;
    *f->pool->error = f->error;
    return (aw_poll)aw__side_switch(&f->outside, &f->inside, result);
}

/* ---- The future ------------------------------------------------------------------------------ */

static void fiber_drop_arguments(aw_future *self) {
    const aw__fiber_info *info = def_of(self)->info;
    if (info->drop) info->drop(self);
}

/* Puts the error into the output. If that cannot carry one, fails the task. */
static AW__COLD aw_poll fiber_fail_without_stack(aw_future *self, aw_cx *cx, int error) {
    void *out = aw_future_out(self);
    fiber_drop_arguments(self);
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
    self->state = error == -EAGAIN ? FIBER_OVER_LIMIT : FIBER_NO_MEMORY;
    if (aw_fail(cx, error) == 0) return AW_PENDING;
    return aw__fiber_poll(self, cx);
}

/* NULL: *failure is a negative errno. */
static aw__fiber *fiber_start(struct aw__fiber_frame *frame, aw_cx *cx, int *failure) {
    size_t size = frame->stack_size                    ? frame->stack_size
                  : cx->meter && cx->meter->stack_size ? cx->meter->stack_size
                                                       : AW__STACK_DEFAULT;
    int error = errno; /* saved before the allocation changes it */
    uint64_t stack_permit;
    *failure = -EAGAIN;
    if (!aw__stack_permit_take(cx->runtime, &stack_permit)) return NULL;
    aw__stacks *pool = aw__stacks_get();
    aw__stack *stack = pool ? aw__stack_alloc(pool, size) : NULL;
    if (!stack) {
        aw__stack_permit_give(cx->runtime, stack_permit);
        *failure = -ENOMEM;
        return NULL;
    }
    aw__fiber *f = (aw__fiber *)(((uintptr_t)stack->top - sizeof *f) & ~(uintptr_t)63);
    memset(f, 0, sizeof *f);
    f->frame = frame;
    f->stack = stack;
    f->stack_permit = stack_permit;
    f->pool = pool;
    f->error = error;
    f->measured = aw__load_relaxed(&measuring);
    if (f->measured) {
        aw__side_unpoison(stack->low, f);
        memset(stack->low, PAINT, (size_t)((char *)f - stack->low));
    }
    aw__side_init(&f->inside, stack->low, f, fiber_entry, f);
    if (cx->meter) cx->meter->pinned = true;
    frame->aw_fiber = f;
    frame->future.state = FIBER_ENTERED;
    return f;
}

static AW__COLD void bad_poll(const aw__fiber *f) {
    if (f->cx)
        aw__misuse("fiber '%s' was polled while it is running, by itself",
                   f->frame->future.type->name);
    aw__misuse("fiber '%s' was first polled by another thread: a fiber stays on its first thread",
               f->frame->future.type->name);
}

static inline void fiber_check(const aw__fiber *f) {
    if (AW__UNLIKELY(f->pool != aw__stacks_of_thread || f->cx)) bad_poll(f);
}

/* The child was polled or cancelled, with result `r`. Resumes the body unless that is
 * AW_PENDING. */
static inline aw_poll child_answered(aw__fiber *f, aw_cx *cx, aw_poll r) {
    if (r == AW_PENDING) return AW_PENDING;
    f->child = NULL;
    if (AW__LIKELY(r == AW_READY)) return fiber_enter(f, cx, 0);
    count_cancelled_await(f, cx);
    return fiber_enter(f, cx, -ECANCELED);
}

static __attribute__((noinline)) aw_poll first_poll(aw_future *self, aw_cx *cx) {
    if (AW__UNLIKELY(self->state != FIBER_FRESH)) {
        if (cx->meter && cx->meter->fail) return AW_PENDING; /* twice in one poll of the task */
        /* The task cannot be failed: this is a custom executor, or the cleanup of a task. */
        aw__rt_log(cx->runtime, AW_LOG_PROBLEM,
                   self->state == FIBER_OVER_LIMIT
                       ? "no stack for fiber '%s': max_stacks is reached"
                       : "no memory for the stack of fiber '%s'",
                   self->type->name);
        return AW_READY;
    }
    int failure;
    aw__fiber *f = fiber_start((struct aw__fiber_frame *)self, cx, &failure);
    return f ? fiber_enter(f, cx, 0) : fiber_fail_without_stack(self, cx, failure);
}

static __attribute__((noinline)) aw_poll poll_child(aw__fiber *f, aw_cx *cx) {
    return child_answered(f, cx, aw__poll_at(f->child, cx, f->file, f->line));
}

/* The other cases are separate functions, so that resuming a fiber that has yielded saves no
 * registers. */
aw_poll aw__fiber_poll(aw_future *self, aw_cx *cx) {
    aw__fiber *f = ((struct aw__fiber_frame *)self)->aw_fiber;
    if (AW__UNLIKELY(!f)) return first_poll(self, cx);
    fiber_check(f);
    if (f->wait == AW__WAIT_CHILD) return poll_child(f, cx);
    if (AW__UNLIKELY(f->wait == AW__WAIT_FAILING)) {
        if (cx->meter && cx->meter->fail) return AW_PENDING;
        aw__misuse(
            "%s:%d: aw_fiber_fail in fiber '%s', which is awaited by cleanup: cleanup cannot "
            "fail the task",
            f->file, f->line, self->type->name);
    }
    return fiber_enter(f, cx, 0);
}

aw_poll aw__fiber_cancel(aw_future *self, aw_cx *cx) {
    struct aw__fiber_frame *frame = (struct aw__fiber_frame *)self;
    aw__fiber *f = frame->aw_fiber;
    if (!f) {
        if (self->state == FIBER_FRESH) fiber_drop_arguments(self);
        return AW_CANCELLED;
    }
    if (f->shields) return aw__fiber_poll(self, cx);
    fiber_check(f);
    if (f->wait == AW__WAIT_CHILD)
        return child_answered(f, cx, aw__cancel_at(f->child, cx, f->file, f->line));
    if (f->wait != AW__WAIT_REFUSED) count_cancelled_await(f, cx);
    return fiber_enter(f, cx, -ECANCELED);
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

/* ---- aw_fiber: a function and its argument --------------------------------------------------- */

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
