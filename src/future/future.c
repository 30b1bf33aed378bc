/* SPDX-License-Identifier: MIT
 *
 * Futures without their type: the checks behind poll and cancel, and the error in an output. No
 * allocation, no system call, no runtime. */
#include <awake/future.h>

#include <string.h>

#include "base/misuse.h"
#include "future/unstarted.h"

aw_poll aw_poll_future(aw_future *f, aw_cx *cx) {
    return aw_future_poll(f, cx);
}

aw_poll aw_cancel_future(aw_future *f, aw_cx *cx) {
    return aw_future_cancel(f, cx);
}

void aw__check_call(const aw_future *f, bool cancel, const char *file, int line) {
    const char *name = f->type->name, *verb = cancel ? "cancelled" : "polled";
    unsigned life = aw__life(f);
    if (life == AW__READY)
        aw__misuse("%s:%d: future '%s' was %s after it had finished", file, line, name, verb);
    if (life == AW__GONE)
        aw__misuse("%s:%d: future '%s' was %s after it had been cancelled", file, line, name, verb);
    if (f->life - life != aw__pin(f) && !(f->type->flags & AW_UNPIN))
        aw__misuse("%s:%d: future '%s' was moved after its first poll (it is %s at another address "
                   "now); pin it, or put it in a box",
                   file, line, name, verb);
    if (!cancel && life != AW__POLLED)
        aw__misuse("%s:%d: future '%s' was polled while it is being cancelled", file, line, name);
}

void aw__check_answer(const aw_future *f, aw_poll answer, const char *file, int line) {
    if (aw__life(f) == AW__CANCELLING_FRESH)
        aw__misuse("%s:%d: cancel of future '%s', which never ran, returned AW_READY", file, line,
                   f->type->name);
    aw__misuse("%s:%d: poll of future '%s' returned %d: only cancel may return AW_CANCELLED", file,
               line, f->type->name, (int)answer);
}

void aw__cancel_unstarted(aw_future *f) {
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    bool started = aw_future_started(f);
    aw_poll r = aw_future_cancel(f, &cx);
    if (r == AW_READY) aw_future_discard(f);
    if (r == AW_PENDING)
        aw__misuse("future '%s' cannot be dropped here: %s", f->type->name,
                   started ? "it is running, and its cancel is pending"
                           : "its cancel must not be pending");
}

int aw_future_error(const aw_future *f) {
    if (!(f->type->flags & AW_OUT_ERRNO)) return 0;
    union {
        signed char c;
        short s;
        int i;
        long long l;
    } out = {0};
    size_t size = f->type->out_size;
    memcpy(&out, (const char *)f + f->type->out_offset, size < sizeof out ? size : sizeof out);
    long long v = size == sizeof out.c   ? out.c
                  : size == sizeof out.s ? out.s
                  : size == sizeof out.i ? out.i
                                         : out.l;
    return v < 0 ? (int)v : 0;
}
