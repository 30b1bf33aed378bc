/* SPDX-License-Identifier: MIT
 *
 * The loop of the current-thread runtime, and block_on. By the owner only, except where it says so.
 *
 * One turn: run up to a batch of tasks; serve the inbox; fire timers; then those that yielded are
 * ready again; and when nothing is ready, sleep until the next timer or the next push to the inbox. */
#include <errno.h>
#include <string.h>

#include "core/lock.h"
#include "core/misuse.h"
#include "core/unstarted.h"
#include "fiber/fiber.h"
#include "runtime/inbox.h"
#include "runtime/runtime.h"
#include "workers/main.h"

_Thread_local struct aw__thread aw__thread;

/* ---- One task --------------------------------------------------------------------------------- */

static void fail_task(aw_runtime *rt, aw__task *t, aw_poll r) {
    if (r == AW_READY) return;
    if (!t->fail) t->fail = (int16_t)rt->meter.fail;
    if (r == AW_PENDING) t->flags |= AW__CANCEL | AW__QUEUED;
}

/* What is not so with most tasks is out of the way: before the poll, and after it. */
static AW__COLD aw_poll poll_special(aw_runtime *rt, aw__task *t, aw_future *f, aw_cx *cx) {
    if (t->flags & AW__FREELY) rt->meter.budget = UINT32_MAX;
    rt->meter.opened = t->opened;
    return t->flags & AW__CANCEL ? aw_future_cancel(f, cx) : aw_future_poll(f, cx);
}

static AW__COLD void count_special(aw_runtime *rt, aw__task *t, aw_poll r) {
    aw__task_opened(t, &rt->meter);
    if (rt->meter.fail) fail_task(rt, t, r);
    if ((rt->meter.cancelling || t->flags & AW__COUNTED) &&
        aw__count_cancels(t, rt->meter.cancelling, r != AW_PENDING) && rt->watch_at == AW_FOREVER)
        aw__watch_begin(rt);
}

/* True: it has ended. */
static inline bool run_task(aw_runtime *rt, aw__task *t, aw_cx *cx) {
    uint16_t flags = t->flags & (uint16_t) ~(AW__QUEUED | AW__YIELDED);
    aw_future *f = AW__UNLIKELY(flags & AW__MAIN) ? rt->main : aw__task_frame(t);
    rt->meter.budget = rt->budget;
    rt->meter.armed = rt->meter.outside = rt->meter.cancelling = rt->meter.fail = 0;
    rt->meter.own = 0;
    rt->current = t;
    t->flags = flags;
    const uint16_t special = AW__FREELY | AW__CANCEL | AW__OPENED;
    aw_poll r = AW__UNLIKELY(flags & special) ? poll_special(rt, t, f, cx) : aw_future_poll(f, cx);
    rt->current = NULL;
    t->armed += rt->meter.armed;
    rt->outside += rt->meter.outside;
    if (AW__UNLIKELY(flags & AW__MAIN)) rt->main_outside += rt->meter.outside;
    if (AW__UNLIKELY(rt->meter.fail | rt->meter.cancelling | (int32_t)rt->meter.opened ||
                     flags & (AW__COUNTED | AW__OPENED)))
        count_special(rt, t, r);
    if (r != AW_PENDING)
        aw__task_complete(rt, t, r);
    else if (t->flags & AW__QUEUED) /* woken while it ran */
        aw__queue_push(t->flags & AW__YIELDED ? &rt->yielded : &rt->ready, t);
    else if (AW__UNLIKELY(t->armed <= rt->meter.own))
        aw__report_if_lost(rt, t);
    return r != AW_PENDING;
}

/* ---- The queue -------------------------------------------------------------------------------- */

/* Not the first one, but the one that the seam picks. */
static AW__COLD aw__task *pick(aw_runtime *rt) {
    aw__queue *q = &rt->ready;
    aw__task *before = NULL, *t = q->head;
    uint32_t n = 0, i;
    for (const aw__task *next = t; next && n < 32; next = next->next)
        n++;
    i = n > 1 ? rt->seam.pick(rt->seam.data, n) : 0;
    for (i = i < n ? i : 0; i; i--) {
        before = t;
        t = t->next;
    }
    if (before)
        before->next = t->next;
    else
        q->head = t->next;
    if (q->tail == t) q->tail = before;
    return t;
}

static inline aw__task *pop(aw_runtime *rt) {
    aw__queue *q = &rt->ready;
    aw__task *t = q->head;
    if (!t) return NULL;
    if (AW__UNLIKELY(rt->seam.pick != NULL)) return pick(rt);
    q->head = t->next;
    if (!q->head) q->tail = NULL;
    return t;
}

/* Those that yielded come behind those that are ready. */
static void append_yielded(aw_runtime *rt) {
    aw__queue *q = &rt->ready, *y = &rt->yielded;
    if (!y->head) return;
    if (q->tail)
        q->tail->next = y->head;
    else
        q->head = y->head;
    q->tail = y->tail;
    *y = (aw__queue){NULL, NULL};
}

void aw__rt_drain(aw_runtime *rt) {
    for (aw__task *t = aw__inbox_take(rt), *next; t; t = next) {
        next = t->inbox_next; /* once served it may be gone, or in the inbox again */
        aw__task_serve(t);
    }
}

/* ---- Sleeping --------------------------------------------------------------------------------- */

/* A paused clock has nothing to wait for but the others, and they have nothing to do: it jumps to the next timer.
 * False: it does not, or there is none. */
static bool jump_clock(aw_runtime *rt) {
    if (!aw__load_relaxed(&rt->paused) || aw__load_acquire(&rt->holds)) return false;
    uint64_t next = aw__wheel_next(&rt->wheel, true);
    if (next == AW_FOREVER) return false;
    if (rt->watch_at < next) next = rt->watch_at;
    if (aw__load_relaxed(&rt->inbox) == NULL && next > aw__load_relaxed(&rt->paused_now))
        aw__store_release(&rt->paused_now, next);
    return true;
}

/* Until when it can sleep, by the seam's clock. */
static uint64_t next_deadline(aw_runtime *rt, bool *timer) {
    uint64_t next = aw__wheel_next(&rt->wheel, false);
    *timer = next != AW_FOREVER;
    if (rt->watch_at < next) next = rt->watch_at;
    if (aw__load_relaxed(&rt->paused)) next = AW_FOREVER; /* it stands still */
    if (next != AW_FOREVER) next -= aw__load_relaxed(&rt->clock_lead);
    if (aw__stacks_here) {
        uint64_t look = aw__stacks_idle(rt->seam.now(rt->seam.data));
        if (look < next) next = look;
    }
    return next;
}

/* Nothing is ready. Sleep until something may be; -EDEADLK when that cannot happen. */
static int idle(aw_runtime *rt) {
    bool timer;
    if (jump_clock(rt)) return 0;
    uint64_t next = next_deadline(rt, &timer);
    if (!timer && !aw__load_acquire(&rt->holds) && !aw__load_acquire(&rt->besides) &&
        aw__is_deadlock(rt))
        return -EDEADLK;
    if (!aw__inbox_park(rt)) return 0;
    aw__rt_park(rt, next);
    aw__inbox_unpark(rt);
    aw__rt_drain(rt);
    return 0;
}

static inline bool is_over(const aw_runtime *rt, aw__until until) {
    if (until != AW__MAIN_ENDED && rt->live == 0) return true;
    return until != AW__ALL_ENDED && rt->main_task.flags & AW__DONE;
}

/* A batch of tasks, and a look at everything that can make others ready. True: it is over. */
static inline __attribute__((always_inline)) bool go_round(aw_runtime *rt, aw__until until) {
    enum { BATCH = 64 };
    aw_waker waker = {&aw__task_waker_type, NULL};
    aw_cx cx = {&waker, rt, &rt->meter};
    aw__task *t;
    for (int n = 0; n < BATCH && (t = pop(rt)); n++) {
        waker.data = t;
        if (run_task(rt, t, &cx) && is_over(rt, until)) return true;
    }
    if (aw__load_relaxed(&rt->inbox)) aw__rt_drain(rt);
    /* Another thread may insert a timer at any time: `asleep` is what tells it to wake us. */
    uint64_t soonest = aw__load_relaxed(&rt->wheel.soonest);
    if (soonest != AW_FOREVER || rt->watch_at != AW_FOREVER) {
        if (!rt->wheel.looked) rt->wheel.now = aw__rt_now(rt);
        uint64_t now = rt->wheel.now;
        if (soonest <= now) aw__wheel_advance(&rt->wheel, now);
        if (rt->watch_at <= now) aw__watch(rt, now);
    }
    rt->wheel.looked = false;
    if (rt->ready.head || rt->yielded.head)
        aw__place_turn(&rt->place); /* otherwise it will sleep there */
    append_yielded(rt);
    return is_over(rt, until);
}

int aw__rt_run(aw_runtime *rt, aw__until until) {
    while (!go_round(rt, until))
        if (!rt->ready.head) {
            int error = idle(rt);
            if (error) return error;
        }
    return 0;
}

bool aw__rt_turn(aw_runtime *rt) {
    enum { ROUNDS = 16 }; /* then its caller's turn has come */
    for (int i = 0; i < ROUNDS; i++) {
        go_round(rt, AW__ALL_ENDED);
        if (rt->ready.head || jump_clock(rt)) continue;
        aw__place_turn(&rt->place);
        if (aw__load_relaxed(&rt->inbox)) aw__rt_drain(rt);
        if (!rt->ready.head) return false;
    }
    return true;
}

uint64_t aw__rt_next(aw_runtime *rt) {
    bool timer;
    return next_deadline(rt, &timer);
}

/* A main future that ends when it is time. */
static void run_for(aw_runtime *rt, uint64_t limit);

void aw__rt_end_tasks(aw_runtime *rt, uint32_t closing, uint64_t limit) {
    aw__store_release(&rt->closing, closing);
    aw__task *t;
    for (aw__walk w = {.rt = rt}; (t = aw__walk_next(&w));)
        aw__task_abort_local(t);
    /* Foreign spawns that are in the inbox come with it; `closing` turns away those behind them. */
    aw__rt_drain(rt);
    if (!rt->live || !limit) return;
    if (limit != AW_FOREVER) {
        run_for(rt, limit);
        return;
    }
    if (aw__rt_run(rt, AW__ALL_ENDED) == 0) return;
    aw__report_deadlock(rt);
    aw__rt_log(rt, AW_LOG_PROBLEM, "%zu tasks cannot be cancelled and are left behind", rt->live);
}

/* ---- Ownership -------------------------------------------------------------------------------- */

/* A thread in block_on while another one owns the runtime. */
struct aw__waiting {
    aw_parker *parker;
    struct aw__waiting *next;
};

bool aw__rt_acquire(aw_runtime *rt) {
    uint32_t free = 0;
    if (!aw__cas(&rt->owned, &free, 1u)) return false;
    aw__thread.running = rt;
    aw__thread.wheel = &rt->wheel;
    aw__place_begin(&rt->place);
    if (AW__UNLIKELY(rt->embedded.used)) aw__embedded_awake(rt);
    return true;
}

/* The last one to leave ends the tasks: nobody would run them. */
void aw__rt_disown(aw_runtime *rt) {
    bool open = !aw__load_relaxed(&rt->closing);
    if (open && !rt->keep_tasks && !rt->embedded.used && !aw__load_acquire(&rt->besides)) {
        aw__rt_end_tasks(rt, AW__FOR_NOW, AW_FOREVER);
        aw__store_release(&rt->closing, 0u);
    }
    aw__rt_release(rt);
}

/* Whoever waits for it may become the owner. */
void aw__rt_release(aw_runtime *rt) {
    aw__place_leave(&rt->place);
    if (AW__UNLIKELY(rt->embedded.used)) aw__embedded_asleep(rt);
    aw__thread.running = NULL;
    aw__thread.wheel = NULL;
    aw__store_release(&rt->owned, 0u);
    aw__lock(&rt->lock);
    for (struct aw__waiting *w = rt->waiting; w; w = w->next)
        aw_parker_unpark(w->parker);
    aw__unlock(&rt->lock);
}

/* ---- block_on --------------------------------------------------------------------------------- */

/* Run the main future to its end; by the owner. `so_far` is what was counted while another thread
 * owned the runtime and it was polled beside it. */
static int run_main(aw_runtime *rt, aw_future *f, const aw__meter *so_far, aw__until until) {
    aw__task *t = &rt->main_task;
    rt->main = f;
    t->flags = AW__MAIN | (so_far->fail ? AW__CANCEL : 0) | (so_far->opened ? AW__OPENED : 0);
    t->armed += so_far->armed; /* a wait may go on from one block_on to the next */
    rt->outside += rt->main_outside = so_far->outside;
    t->fail = (int16_t)so_far->fail;
    t->cancelling = 0;
    t->opened = (uint16_t)so_far->opened;
    t->status = AW__RUNNING;
    aw__task_wake_local(rt, t);
    int error = aw__rt_run(rt, until);
    if (error) aw__report_deadlock(rt);
    if (!(t->flags & AW__DONE)) {
        /* Its memory is the caller's, who is about to go on: it must be gone first. */
        aw__task_abort_local(t);
        if (aw__rt_run(rt, AW__MAIN_ENDED))
            aw__misuse("the main future '%s' cannot be cancelled: nothing will wake it",
                       f->type->name);
    }
    rt->main = NULL;
    /* What was counted beside, and again here because the waker changed. What else is left goes on. */
    int64_t twice = rt->main_outside < so_far->outside ? rt->main_outside : so_far->outside;
    if (twice > 0) {
        rt->outside -= twice;
        t->armed -= (int32_t)twice;
    }
    int status = t->status;
    return status == AW__FINISHED ? 0 : error && status == -ECANCELED ? error : status;
}

static void run_for(aw_runtime *rt, uint64_t limit) {
    aw_sleep sleep = aw_sleep_for(limit);
    run_main(rt, &sleep.future, &(aw__meter){0}, AW__EITHER_ENDED);
}

/* Another thread owns the runtime: poll the future here. Its timers and joins are served over there.
 * When the owner leaves, take over. */
static int block_beside(aw_runtime *rt, aw_future *f) {
    struct aw__waiting w = {aw_parker_new(), NULL};
    if (!w.parker) {
        aw__cancel_unstarted(f);
        return -ENOMEM;
    }
    /* It may end a deadlock. It does not hold a paused clock: like any thread outside it is not seen. */
    aw__fetch_add(&rt->besides, 1u);
    aw__lock(&rt->lock);
    w.next = rt->waiting;
    rt->waiting = &w;
    aw__unlock(&rt->lock);

    aw_waker waker = aw_parker_waker(w.parker);
    aw__meter meter = {.budget = rt->budget, .stack_size = rt->meter.stack_size};
    aw_cx cx = {&waker, rt, &meter};
    bool owner = false;
    int fail = 0;
    aw_poll r = AW_PENDING;
    aw__thread.beside = rt;
    while (!(owner = aw__rt_acquire(rt))) {
        meter.fail = 0;
        r = fail ? aw_future_cancel(f, &cx) : aw_future_poll(f, &cx);
        if (r != AW_PENDING) {
            aw__check_left_by_main(f, meter.opened);
            break;
        }
        meter.budget = rt->budget;
        if (!fail && meter.fail)
            fail = meter.fail; /* and cancel it at once */
        else if (!meter.fail)
            aw_parker_park(w.parker);
    }
    aw__thread.beside = NULL;

    aw__lock(&rt->lock);
    struct aw__waiting **at = &rt->waiting;
    while (*at != &w)
        at = &(*at)->next;
    *at = w.next;
    aw__unlock(&rt->lock);
    aw__rt_unhold(rt, &rt->besides);
    int error = r == AW_CANCELLED ? fail : 0;
    meter.fail = fail;
    if (owner) {
        error = run_main(rt, f, &meter, AW__MAIN_ENDED);
        aw__rt_disown(rt);
    }
    aw_parker_free(w.parker);
    return error;
}

/* Blocking here would stop the tasks of this thread, or the future that is being polled. */
bool aw__inside(void) {
    return aw__thread.running || aw__thread.beside || aw__thread.worker || aw__fiber_here;
}

int aw__refuse(aw_future *f, const char *what) {
    const aw_runtime *rt = aw_runtime_current();
    const aw__task *t = aw__current_task();
    char name[256] = "a fiber";
    if (aw__thread.beside)
        strcpy(name, "the main future");
    else if (t)
        aw__name_task(name, sizeof name, t);
    aw__rt_log(rt, AW_LOG_PROBLEM, "%s of '%s' was refused inside %s: await it instead", what,
               f->type->name, name);
    aw__cancel_unstarted(f);
    return -EPERM;
}

int aw_block_on_future(aw_runtime *rt, aw_future *f) {
    if (aw__inside()) return aw__refuse(f, "block_on");
    bool forked = aw__rt_forked(rt);
    if (forked || aw__load_acquire(&rt->closing) == AW__FOR_EVER) {
        aw__cancel_unstarted(f);
        return forked ? -EOWNERDEAD : -ESHUTDOWN;
    }
    if (rt->pool) return aw__pool_block_on(rt, f);
    if (!aw__rt_acquire(rt)) return block_beside(rt, f);
    int error = run_main(rt, f, &(aw__meter){0}, AW__MAIN_ENDED);
    aw__rt_disown(rt);
    return error;
}

int aw_run_future(aw_future *f) {
    if (aw__inside()) return aw__refuse(f, "block_on");
    aw_runtime *rt;
    int error = aw_runtime_new(&rt, NULL);
    if (error) {
        aw__cancel_unstarted(f);
        return error;
    }
    error = aw_block_on_future(rt, f);
    aw_runtime_free(rt);
    return error;
}
