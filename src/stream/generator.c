/* SPDX-License-Identifier: MIT
 *
 * Generators: an async function or a fiber as a stream. Its poll is pending in two cases,
 * distinguished by the phase: it awaits something, or it has yielded a value. In the second case it
 * holds no waker: only the next call resumes it. */
#include <awake/generator.h>

#include <errno.h>

#include "base/misuse.h"
#include "task/task_borrows.h"

typedef struct aw__generator generator;

static aw_future *generator_future(const aw_stream *s) {
    return (aw_future *)(void *)((char *)(uintptr_t)s - (uintptr_t)s->type->extra);
}

static void generator_ended(generator *g, aw_cx *cx) {
    g->aw_phase = AW__GENERATOR_ENDED;
    aw__borrow_end(&g->aw_borrow, cx);
}

static void generator_poll(generator *g, aw_future *f, aw_cx *cx) {
    g->aw_phase = AW__GENERATOR_WAITING;
    if (AW__UNLIKELY(!g->aw_borrow.mark)) aw__borrow_begin(&g->aw_borrow, f, cx);
    if (aw__pending_item_poll(&g->aw_pending, f, cx) == AW_READY) generator_ended(g, cx);
    if (g->aw_phase == AW__GENERATOR_YIELDED) aw__pending_item_idle(&g->aw_pending, cx);
}

aw_poll aw__generator_next(aw_stream *s, aw_cx *cx, int *out) {
    generator *g = (generator *)s;
    aw_future *f = generator_future(s);
    /* While it waits, the future that it awaits spends the budget. */
    if (g->aw_phase != AW__GENERATOR_WAITING && !aw_cx_spend(cx)) return AW_PENDING;
    if (g->aw_phase <= AW__GENERATOR_WAITING) generator_poll(g, f, cx);
    if (g->aw_phase == AW__GENERATOR_WAITING) return AW_PENDING;
    if (g->aw_phase == AW__GENERATOR_YIELDED) {
        g->aw_phase = AW__GENERATOR_IDLE;
        *out = 1;
    } else {
        *out = g->aw_phase == AW__GENERATOR_ENDED ? aw_future_error(f) : 0;
        g->aw_phase = AW__GENERATOR_REPORTED;
    }
    return AW_READY;
}

bool aw__generator_disarm(aw_stream *s, aw_cx *cx) {
    generator *g = (generator *)s;
    if (g->aw_phase != AW__GENERATOR_WAITING) return false;
    if (aw__pending_item_disarm(&g->aw_pending, generator_future(s), cx)) generator_ended(g, cx);
    return g->aw_phase != AW__GENERATOR_WAITING;
}

aw_poll aw__generator_close(aw_stream *s, aw_cx *cx) {
    generator *g = (generator *)s;
    aw_future *f = generator_future(s);
    if (g->aw_phase == AW__GENERATOR_YIELDED) aw_stream_drop_item(s, g->item);
    g->aw_phase = AW__GENERATOR_CLOSED;
    if (aw_future_ended(f)) return AW_READY;
    if (aw__pending_item_cancel(&g->aw_pending, f, cx) == AW_PENDING) return AW_PENDING;
    aw__borrow_end(&g->aw_borrow, cx);
    return AW_READY;
}

const aw_future *aw__generator_child(const aw_stream *s, size_t i) {
    const aw_future *f = generator_future(s);
    return i == 0 && !aw_future_ended(f) ? f : NULL;
}

void aw__generator_yield(aw_stream *s, const char *file, int line) {
    generator *g = (generator *)s;
    if (g->aw_phase != AW__GENERATOR_WAITING)
        aw__misuse("%s:%d: generator '%s' yields a value %s", file, line, s->type->name,
                   g->aw_phase == AW__GENERATOR_YIELDED ? "before the last one was taken"
                                                        : "that was not asked for");
    g->aw_phase = AW__GENERATOR_YIELDED;
}

/* ---- In a fiber ------------------------------------------------------------------------------ */

/* Pending once. Under a shield it is not cancelled, so it checks for a close itself. */
struct yield_future {
    aw_future future;
    int out;
    aw_stream *to;
    const char *file;
    int line;
};

static aw_poll yield_value_poll(aw_future *self, aw_cx *cx) {
    (void)cx;
    struct yield_future *y = (struct yield_future *)self;
    if (((generator *)y->to)->aw_phase == AW__GENERATOR_CLOSED) {
        y->out = -ECANCELED;
        return AW_READY;
    }
    if (self->state) return AW_READY;
    self->state = 1;
    aw__generator_yield(y->to, y->file, y->line);
    return AW_PENDING;
}

static const aw_future_type yield_value_type = {
    AW_TYPE_OF(struct yield_future, "yield_value"),
    .flags = AW_OUT_ERRNO,
    .poll = yield_value_poll,
};

int aw__generator_yield_fiber(aw_stream *s, const char *file, int line) {
    struct yield_future y = {AW_FUTURE_INIT(&yield_value_type), 0, s, file, line};
    int error = aw_fiber_await(&y.future, file, line);
    if (!y.future.state) aw_stream_drop_item(s, ((generator *)s)->item); /* it was not delivered */
    return error ? error : y.out;
}
