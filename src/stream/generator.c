/* SPDX-License-Identifier: MIT
 *
 * Generators: an async function or a fiber behind the face of a stream. Its poll is pending in two cases, which the phase
 * tells apart: it waits for something, or it has given a value and waits for somebody to want another one. In the second
 * it holds no waker: nobody but the next call will wake it. */
#include <awake/generator.h>

#include <errno.h>

#include "core/misuse.h"
#include "runtime/opened.h"

typedef struct aw__generator generator;

static aw_future *future_of(const aw_stream *s) {
    return (aw_future *)(void *)((char *)(uintptr_t)s - (uintptr_t)s->type->extra);
}

static void ended(generator *g, aw_cx *cx) {
    g->aw_phase = AW__GENERATOR_ENDED;
    aw__open_end(&g->aw_opened, cx);
}

static void poll_it(generator *g, aw_future *f, aw_cx *cx) {
    g->aw_phase = AW__GENERATOR_WAITING;
    if (AW__UNLIKELY(!g->aw_opened.mark)) aw__open_begin(&g->aw_opened, f, cx);
    if (aw__held_poll(&g->aw_held, f, cx) == AW_READY) ended(g, cx);
    if (g->aw_phase == AW__GENERATOR_YIELDED) aw__held_idle(&g->aw_held, cx);
}

aw_poll aw__generator_next(aw_stream *s, aw_cx *cx, int *out) {
    generator *g = (generator *)s;
    aw_future *f = future_of(s);
    /* Waiting, it is what it waits for that spends. */
    if (g->aw_phase != AW__GENERATOR_WAITING && !aw_cx_spend(cx)) return AW_PENDING;
    if (g->aw_phase <= AW__GENERATOR_WAITING) poll_it(g, f, cx);
    if (g->aw_phase == AW__GENERATOR_WAITING) return AW_PENDING;
    if (g->aw_phase == AW__GENERATOR_YIELDED) {
        g->aw_phase = AW__GENERATOR_IDLE;
        *out = 1;
    } else {
        *out = g->aw_phase == AW__GENERATOR_ENDED ? aw_future_error(f) : 0;
        g->aw_phase = AW__GENERATOR_TOLD;
    }
    return AW_READY;
}

bool aw__generator_rest(aw_stream *s, aw_cx *cx) {
    generator *g = (generator *)s;
    if (g->aw_phase != AW__GENERATOR_WAITING) return false;
    if (aw__held_rest(&g->aw_held, future_of(s), cx)) ended(g, cx);
    return g->aw_phase != AW__GENERATOR_WAITING;
}

aw_poll aw__generator_close(aw_stream *s, aw_cx *cx) {
    generator *g = (generator *)s;
    aw_future *f = future_of(s);
    if (g->aw_phase == AW__GENERATOR_YIELDED) aw_stream_drop_item(s, g->item);
    g->aw_phase = AW__GENERATOR_CLOSED;
    if (aw_future_ended(f)) return AW_READY;
    if (aw__held_cancel(&g->aw_held, f, cx) == AW_PENDING) return AW_PENDING;
    aw__open_end(&g->aw_opened, cx);
    return AW_READY;
}

const aw_future *aw__generator_child(const aw_stream *s, size_t i) {
    const aw_future *f = future_of(s);
    return i == 0 && !aw_future_ended(f) ? f : NULL;
}

void aw__generator_yield(aw_stream *s, const char *file, int line) {
    generator *g = (generator *)s;
    if (g->aw_phase != AW__GENERATOR_WAITING)
        aw__misuse("%s:%d: generator '%s' yields a value %s", file, line, s->type->name,
                   g->aw_phase == AW__GENERATOR_YIELDED ? "before the last one was taken"
                                                        : "that nobody asked for");
    g->aw_phase = AW__GENERATOR_YIELDED;
}

/* ---- In a fiber ------------------------------------------------------------------------------- */

/* Pending once. A shield keeps it from being cancelled, so it has to look itself. */
struct yielding {
    aw_future future;
    int out;
    aw_stream *to;
    const char *file;
    int line;
};

static aw_poll yielding_poll(aw_future *self, aw_cx *cx) {
    (void)cx;
    struct yielding *y = (struct yielding *)self;
    if (((generator *)y->to)->aw_phase == AW__GENERATOR_CLOSED) {
        y->out = -ECANCELED;
        return AW_READY;
    }
    if (self->state) return AW_READY;
    self->state = 1;
    aw__generator_yield(y->to, y->file, y->line);
    return AW_PENDING;
}

static const aw_future_type yielding_type = {
    AW_TYPE_OF(struct yielding, "yield_value"),
    .flags = AW_OUT_ERRNO,
    .poll = yielding_poll,
};

int aw__generator_yield_fiber(aw_stream *s, const char *file, int line) {
    struct yielding y = {AW_FUTURE_INIT(&yielding_type), 0, s, file, line};
    int error = aw_fiber_await(&y.future, file, line);
    if (!y.future.state) aw_stream_drop_item(s, ((generator *)s)->item); /* nobody saw it */
    return error ? error : y.out;
}
