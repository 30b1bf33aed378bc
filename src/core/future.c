/* SPDX-License-Identifier: MIT
 *
 * What erased code needs of a future: the checks behind poll and cancel, reading an output, and the
 * await chain as text. No allocation, no OS, no runtime. */
#include <awake/async.h>
#include <awake/future.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/misuse.h"
#include "core/unstarted.h"

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
        aw__misuse("%s:%d: cancel of future '%s', which never ran, answered READY", file, line,
                   f->type->name);
    aw__misuse("%s:%d: poll of future '%s' answered %d: only cancel may end in CANCELLED", file,
               line, f->type->name, (int)answer);
}

void aw__cancel_unstarted(aw_future *f) {
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    bool started = aw_future_started(f);
    aw_poll r = aw_future_cancel(f, &cx);
    if (r == AW_READY) aw_future_discard(f);
    if (r == AW_PENDING)
        aw__misuse("future '%s' cannot be given up here: %s", f->type->name,
                   started ? "it runs, and its cancel takes time" : "its cancel must end at once");
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

/* xorshift64*: good enough to be fair, and repeatable from its seed. */
static uint64_t next_random(uint64_t *state) {
    uint64_t x = *state ? *state : 0x9e3779b97f4a7c15u;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

uint64_t aw_cx_random(aw_cx *cx) {
    static _Thread_local uint64_t without_executor;
    return next_random(cx->meter ? &cx->meter->random : &without_executor) >> 16;
}

/* ---- Await chains ----------------------------------------------------------------------------- */

enum { MAX_DEPTH = 64, MAX_CHILDREN = 16 };

void aw__text_chain(aw__text *t, const aw_future *f, int depth) {
    const aw_future_type *type = f->type;
    aw__text_add(t, "%*s%s", depth * 2, "", type->name);
    if (aw__life(f) == AW__FRESH) {
        aw__text_add(t, ", not started\n");
        return;
    }
    if (type->file) aw__text_add(t, " at %s:%" PRIu32, type->file, f->state & AW__LINE_MASK);
    if (type->describe) {
        char what[128] = "";
        type->describe(f, what, sizeof what);
        if (*what) aw__text_add(t, ": %s", what);
    }
    if (aw_future_cancelling(f)) aw__text_add(t, " (being cancelled)");
    aw__text_add(t, "\n");
    if (!type->child) return;
    if (depth > MAX_DEPTH) {
        aw__text_add(t, "%*s(deeper)\n", depth * 2 + 2, "");
        return;
    }
    const aw_future *child;
    for (size_t i = 0; (child = type->child(f, i)); i++) {
        if (i == MAX_CHILDREN) {
            aw__text_add(t, "%*s(and more)\n", depth * 2 + 2, "");
            return;
        }
        aw__text_chain(t, child, depth + 1);
    }
}

int aw_future_describe(const aw_future *f, char *buf, size_t size) {
    aw__text t = {buf, size, 0};
    if (size) buf[0] = 0;
    aw__text_chain(&t, f, 0);
    return (int)t.length;
}
