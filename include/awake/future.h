/* SPDX-License-Identifier: MIT
 *
 * awake/future.h: what a future is, and the contract that every future and every caller keeps.
 *
 * A future is a value: a struct whose first member is an aw_future that names its type, and whose
 * output, when it has one, is a member called `out`. It does nothing until it is polled.
 *
 *   poll     does what it can without blocking. It returns AW_READY with the output in the struct,
 *            or AW_PENDING after making sure that the waker of this call (the latest, no other) is
 *            woken when there is more to do. It never returns AW_CANCELLED.
 *   cancel   winds the future up, and is polled too: it may be called at any time before the end,
 *            also before the first poll, and again on each wake, until it answers AW_CANCELLED, or
 *            AW_READY when the future finished first: then its output stands. From the first cancel
 *            on only cancel is called. A future that was never polled answers AW_CANCELLED in the
 *            end. NULL means gone at once: only for what owns no child, registration or memory.
 *   discard  releases an output that nobody will take. Called at most once, after AW_READY, by
 *            whoever drops a finished future that it does not hand on. May be NULL.
 *
 * After its end a future holds nothing: no waker, no buffer, no place in a queue.
 *
 * Storage belongs to whoever awaits. Constructors acquire nothing. A future may be moved freely
 * until its first poll (or cancel) and stays where it is from then until its end, unless its type
 * says AW_UNPIN. What its arguments own passes to the future when it is first polled, first
 * cancelled, or spawned.
 *
 * One thread at a time may poll a given future. */
#ifndef AWAKE_FUTURE_H
#define AWAKE_FUTURE_H

#include <awake/config.h>
#include <awake/waker.h>

AW_C_BEGIN

typedef enum aw_poll { AW_PENDING, AW_READY, AW_CANCELLED } aw_poll;

typedef struct aw_future aw_future;
typedef struct aw_future_type aw_future_type;
typedef struct aw_cx aw_cx;
typedef struct aw_runtime aw_runtime;

/* The head of every future. `state` belongs to the type; `life` to aw_future_poll and
 * aw_future_cancel: where in its life the future is, and where in memory it was first polled. */
struct aw_future {
    const aw_future_type *type;
    uint32_t state;
    uint32_t life;
};

enum {
    AW_UNPIN = 1,     /* may be moved between polls */
    AW_OUT_ERRNO = 2, /* the output is a signed integer whose negatives are errnos */
    AW__PINNED = 4    /* stays on the thread that first polls it: a fiber */
};

struct aw_future_type {
    size_t self_size; /* of this struct: it may grow */
    const char *name; /* for backtraces */
    const char *file; /* where it is defined; NULL when `state` is not a line of it */
    /* Of the whole future, and where its output is. A generic type has size 0: erased code then
     * takes the size from its caller. */
    size_t size, out_offset, out_size;
    unsigned flags;
    aw_poll (*poll)(aw_future *self, aw_cx *cx);
    aw_poll (*cancel)(aw_future *self, aw_cx *cx);
    void (*discard)(aw_future *self);
    /* For backtraces: the i-th child that it waits on now, NULL when there are no more. */
    const aw_future *(*child)(const aw_future *self, size_t i);
    /* For backtraces: what it waits for, in a few words. May be NULL. Both only look: with workers other
     * threads call them, while the task waits. */
    void (*describe)(const aw_future *self, char *buf, size_t size);
    /* What a kind of future keeps beside: the definition of a fiber. */
    const void *extra;
};

#define AW_FUTURE_INIT(type_ptr)                                                                   \
    { (type_ptr), 0, 0 }

/* Static initialiser of the fields that every type object starts with, for a struct type `T` whose
 * output is its member `out`:
 *     const aw_future_type delay_type = {AW_TYPE_OF(struct delay, "delay"), .poll = delay_poll}; */
#ifndef __cplusplus
#define AW_TYPE_OF(T, title)                                                                       \
    .self_size = sizeof(aw_future_type), .name = title, .size = sizeof(T),                         \
    .out_offset = offsetof(T, out), .out_size = sizeof(((T *)0)->out)
#endif

/* ---- Context ----------------------------------------------------------------------------------
 * What a poll lends to the futures below it: a waker and, when there is one, the runtime. Its
 * members are private; it never outlives the poll. */

/* What an executor counts while it polls. */
typedef struct aw__meter {
    uint32_t budget;     /* operations left in this poll */
    int32_t armed;       /* change in the number of waits that will wake the task */
    int32_t outside;     /* of those, the ones that may be ended from outside the runtime */
    int32_t own;         /* waits that began in this poll, for what only the task itself can end */
    int32_t cancelling;  /* change in the number of futures that are being cancelled */
    int fail;            /* a negative errno: the task is to end with it */
    uint32_t opened;     /* what the task has opened, and not ended: see aw__open */
    bool pinned;         /* the task must stay on this thread from now on */
    bool yielding;       /* a wake of the running task means: behind the others */
    uint64_t random;     /* for fair choices */
    uint32_t stack_size; /* of fibers that do not ask for one; 0: the default */
} aw__meter;

/* What a combinator counts whose children may begin to wait under one executor and end under another. */
typedef struct aw__carry {
    int32_t armed, outside; /* as above, among the children */
    uint8_t carried;        /* what the parent counts because of them */
} aw__carry;

/* What has to be over before the memory goes away that it lies in: a scope, a generator. Zero, when it is not open. */
typedef struct aw__open {
    uintptr_t mark; /* by which it is found in that memory */
    const aw_future *what;
    void *task;  /* that counts it */
    void *fiber; /* on whose stack it lies, and that counts it too */
} aw__open;

struct aw_cx {
    const aw_waker *waker;
    aw_runtime *runtime;
    aw__meter *meter;
};

/* A context for an executor of one's own. The waker is borrowed for the poll. */
static inline aw_cx aw_cx_from_waker(const aw_waker *waker) {
    aw_cx cx = {waker, NULL, NULL};
    return cx;
}

/* The waker of this poll, borrowed. */
static inline const aw_waker *aw_cx_waker(const aw_cx *cx) {
    return cx->waker;
}

/* The runtime that polls, or the one this thread has entered, or NULL. */
AW_API aw_runtime *aw_cx_runtime(const aw_cx *cx);

/* A leaf that borrows the waker says so, so that a task that nobody can wake any more is noticed:
 * arm when it starts to wait, disarm when it ends. A leaf that clones the waker needs neither.
 * The _inside forms are for waits that only a task of this same runtime can end. */
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

/* Private. A wait that has just been armed is for something that this task holds itself. If it is the only one, the
 * task can never run again. */
static inline void aw__cx_own(aw_cx *cx) {
    if (cx->meter) cx->meter->own++;
}

/* Cooperation: a leaf that is about to make progress spends one of the 128 operations of this
 * poll. False: none is left; the waker has been woken, return AW_PENDING. `cancel` never asks. */
static inline bool aw_cx_spend(aw_cx *cx) {
    if (!cx->meter) return true;
    if (AW__LIKELY(cx->meter->budget)) {
        cx->meter->budget--;
        return true;
    }
    aw_waker_wake_by_ref(cx->waker);
    return false;
}

/* Whether a spend would be refused, for who has to know before it takes what it would pay for. */
static inline bool aw_cx_exhausted(const aw_cx *cx) {
    return cx->meter && !cx->meter->budget;
}

/* Wake this poll's waker, but let the others, timers and I/O come first. Then return AW_PENDING. */
static inline void aw_cx_yield(aw_cx *cx) {
    if (cx->meter) cx->meter->yielding = true;
    aw_waker_wake_by_ref(cx->waker);
    if (cx->meter) cx->meter->yielding = false;
}

/* A number for fair choices: seeded by the runtime, so that a seeded run is repeatable. */
AW_API uint64_t aw_cx_random(aw_cx *cx);

/* ---- Calling a future -------------------------------------------------------------------------
 * All polls and cancels go through these, which keep `life` and catch misuse with file and line. */

/* The low bits of `life`; the others are of the address at the first poll. */
enum {
    AW__FRESH,
    AW__POLLED,
    AW__CANCELLING,       /* as a bit it is only in this and the next one */
    AW__CANCELLING_FRESH, /* cancelled before its first poll */
    AW__READY,
    AW__GONE,
    AW__LIFE_MASK = 7
};

static inline unsigned aw__life(const aw_future *f) {
    return f->life & AW__LIFE_MASK;
}
static inline uint32_t aw__pin(const aw_future *f) {
    uint32_t at = (uint32_t)(uintptr_t)
        f; /* its low bits are clear where pointers are aligned to 8 */
    return __alignof__(aw_future) > AW__LIFE_MASK ? at : at & ~(uint32_t)AW__LIFE_MASK;
}

/* Aborts with a message unless the call is allowed after all (a type that may move). */
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
    /* The executor watches cancels that take long. */
    if (cx->meter && first != (r != AW_PENDING)) cx->meter->cancelling += first ? 1 : -1;
    return r;
}

#define aw_future_poll(f, cx)   aw__poll_at((f), (cx), __FILE__, __LINE__)
#define aw_future_cancel(f, cx) aw__cancel_at((f), (cx), __FILE__, __LINE__)

/* The same as functions, for other languages. */
AW_API aw_poll aw_poll_future(aw_future *f, aw_cx *cx);
AW_API aw_poll aw_cancel_future(aw_future *f, aw_cx *cx);

/* Release the output of a finished future that nobody will take. */
static inline void aw_future_discard(aw_future *f) {
    if (f->type->discard) f->type->discard(f);
}

/* Where a future is in its life. */
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

/* The output of a finished future, for erased code. */
static inline void *aw_future_out(aw_future *f) {
    return (char *)f + f->type->out_offset;
}

/* The error in an output that has AW_OUT_ERRNO: 0 when it is not negative. */
AW_API int aw_future_error(const aw_future *f);

/* Write the await chain of a future as text, one line each, indented: name, file:line, what it
 * waits for. Returns what snprintf would. Only by the thread that may poll it. */
AW_API int aw_future_describe(const aw_future *f, char *buf, size_t size);

AW_C_END

#endif
