/* SPDX-License-Identifier: MIT
 *
 * awake/detail/future.h: private. The inline functions of awake/future.h, and the checks of the
 * contract that they make. */
#ifndef AWAKE_DETAIL_FUTURE_H
#define AWAKE_DETAIL_FUTURE_H

#include <awake/detail/meter.h>
#include <awake/future.h>

AW_C_BEGIN

/* Flags of a type, beside AW_UNPIN and AW_OUT_ERRNO. */
enum {
    AW__PINNED = 4,   /* stays on the thread of its first poll: a fiber */
    AW__SELF_WAIT = 8 /* may wait for something its own task holds; `extra` tells */
};

/* ---- Context ------------------------------------------------------------------------------- */

static inline aw_cx aw_cx_from_waker(const aw_waker *waker) {
    aw_cx cx = {waker, NULL, NULL};
    return cx;
}

static inline const aw_waker *aw_cx_waker(const aw_cx *cx) {
    return cx->waker;
}

static inline void aw_cx_arm(aw_cx *cx) {
    if (cx->meter) cx->meter->armed++, cx->meter->outside++;
}
static inline void aw_cx_disarm(aw_cx *cx) {
    if (cx->meter) cx->meter->armed--, cx->meter->outside--;
}
static inline void aw_cx_arm_inside(aw_cx *cx) {
    if (cx->meter) cx->meter->armed++;
}
static inline void aw_cx_disarm_inside(aw_cx *cx) {
    if (cx->meter) cx->meter->armed--;
}

static inline bool aw_cx_spend(aw_cx *cx) {
    if (!cx->meter) return true;
    if (AW__LIKELY(cx->meter->budget)) {
        cx->meter->budget--;
        return true;
    }
    aw_waker_wake_by_ref(cx->waker);
    return false;
}

static inline bool aw_cx_exhausted(const aw_cx *cx) {
    return cx->meter && !cx->meter->budget;
}

static inline void aw_cx_yield(aw_cx *cx) {
    if (cx->meter) cx->meter->yielding = true;
    aw_waker_wake_by_ref(cx->waker);
    if (cx->meter) cx->meter->yielding = false;
}

/* ---- The stages of a future's life --------------------------------------------------------- */

/* The low bits of `life`. The other bits come from the address at the first poll. */
enum {
    AW__FRESH,
    AW__POLLED,
    AW__CANCELLING,       /* its bit is set only in this value and the next */
    AW__CANCELLING_FRESH, /* cancelled before its first poll */
    AW__READY,
    AW__GONE,
    AW__LIFE_MASK = 7
};

static inline unsigned aw__life(const aw_future *f) {
    return f->life & AW__LIFE_MASK;
}
static inline uint32_t aw__pin(const aw_future *f) {
    /* Where pointers are aligned to 8, the low bits are clear. */
    uint32_t at = (uint32_t)(uintptr_t)f;
    return __alignof__(aw_future) > AW__LIFE_MASK ? at : at & ~(uint32_t)AW__LIFE_MASK;
}

static inline bool aw_future_started(const aw_future *f) {
    unsigned life = aw__life(f);
    return life != AW__FRESH && life != AW__CANCELLING_FRESH;
}
static inline bool aw_future_cancelling(const aw_future *f) {
    return f->life & AW__CANCELLING;
}
static inline bool aw_future_ended(const aw_future *f) {
    return aw__life(f) >= AW__READY;
}
static inline bool aw_future_finished(const aw_future *f) {
    return aw__life(f) == AW__READY;
}

/* ---- Calling a future ---------------------------------------------------------------------- */

/* Aborts with a message, unless the call is allowed after all (a type that may move). */
AW_API void aw__check_call(const aw_future *f, bool cancel, const char *file, int line);
AW_API void aw__check_answer(const aw_future *f, aw_poll answer, const char *file, int line);

static inline aw_poll aw__poll_at(aw_future *f, aw_cx *cx, const char *file, int line) {
    uint32_t life = f->life, polled = aw__pin(f) | AW__POLLED;
    if (AW_CHECKS && life != AW__FRESH && AW__UNLIKELY(life != polled))
        aw__check_call(f, false, file, line);
    f->life = polled;
    aw_poll r = f->type->poll(f, cx);
    if (r != AW_PENDING) {
        if (AW_CHECKS && AW__UNLIKELY(r != AW_READY)) aw__check_answer(f, r, file, line);
        f->life = AW__READY;
    }
    return r;
}

static inline aw_poll aw__cancel_at(aw_future *f, aw_cx *cx, const char *file, int line) {
    unsigned life = aw__life(f);
    if (AW_CHECKS &&
        AW__UNLIKELY(life >= AW__READY || (f->life != AW__FRESH && f->life != (aw__pin(f) | life))))
        aw__check_call(f, true, file, line);
    bool first = life < AW__CANCELLING;
    if (first) {
        life = life == AW__FRESH ? AW__CANCELLING_FRESH : AW__CANCELLING;
        f->life = aw__pin(f) | life;
    }
    aw_poll r = f->type->cancel ? f->type->cancel(f, cx) : AW_CANCELLED;
    if (AW_CHECKS && r == AW_READY && AW__UNLIKELY(life == AW__CANCELLING_FRESH))
        aw__check_answer(f, r, file, line);
    if (r != AW_PENDING) f->life = r == AW_READY ? AW__READY : AW__GONE;
    /* The executor reports cancels that take long. */
    if (cx->meter && first != (r != AW_PENDING)) cx->meter->cancelling += first ? 1 : -1;
    return r;
}

static inline void aw_future_discard(aw_future *f) {
    if (f->type->discard) f->type->discard(f);
}

static inline void *aw_future_out(aw_future *f) {
    return (char *)f + f->type->out_offset;
}

AW_C_END

#endif
