/* SPDX-License-Identifier: MIT
 *
 * Blocking calls: the future, and the threads that make the calls. See blocking_pool.h. */
#include "blocking/blocking_pool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/allocate.h"
#include "base/list.h"
#include "base/misuse.h"
#include "future/wake.h"
#include "os/park.h"
#include "os/thread.h"
#include "task/hold.h"

typedef struct blocking_thread {
    aw__sleeper sleeper;
    uint32_t park_word;
    uint32_t index;
    aw__blocking *pool;
} blocking_thread;

/* ---- The lists of jobs ----------------------------------------------------------------------- */

/* Under the lock of the list. */
static void job_unlink(aw__job *j) {
    aw__tailq_remove_with(aw__store_seq, j->list, j);
}

/* False: the runtime has ended. */
static bool job_push(aw__blocking *b, aw__job *j) {
    struct aw__job_list *l = &b->lists[aw__fetch_add_relaxed(&b->next, 1u) % AW__JOB_LISTS];
    aw__lock(&l->lock);
    if (aw__load_relaxed(&b->stop)) {
        aw__unlock(&l->lock);
        return false;
    }
    j->list = l;
    aw__tailq_insert_tail_with(aw__store_seq, l, j);
    aw__unlock(&l->lock);
    return true;
}

static bool has_jobs(const aw__blocking *b) {
    for (int i = 0; i < AW__JOB_LISTS; i++)
        if (aw__load_seq(&b->lists[i].first)) return true;
    return false;
}

/* A copy of the call: once the lock of the list is free, the future may be cancelled and gone. */
struct job_call {
    long (*fn)(void *arg);
    void (*release)(void *arg);
    void *arg;
    aw_runtime *rt; /* the runtime that it enters, or NULL */
};

static aw_runtime *entered_runtime(const aw_blocking_future *f) {
    return f->release && f->rt->base.in_storage ? NULL : f->rt;
}

static aw__job *job_take(aw__blocking *b, uint32_t start, struct job_call *call) {
    for (uint32_t i = 0; i < AW__JOB_LISTS; i++) {
        struct aw__job_list *l = &b->lists[(start + i) % AW__JOB_LISTS];
        if (!aw__load_seq(&l->first)) continue;
        aw__lock(&l->lock);
        aw__job *j = l->first;
        if (j) {
            job_unlink(j);
            aw__store_relaxed(&j->stage, AW__JOB_RUNNING);
            const aw_blocking_future *f = j->future;
            *call = (struct job_call){f->fn, f->release, f->arg, entered_runtime(f)};
        }
        aw__unlock(&l->lock);
        if (j) return j;
    }
    return NULL;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void blocking_free(aw__blocking *b) {
    aw__free(b->allocator, b->memory, sizeof *b + 64);
}

static void blocking_unref(aw__blocking *b) {
    if (aw__fetch_sub(&b->refs, 1u) == 1) blocking_free(b);
}

static void unpark_thread(aw__sleeper *s) {
    aw__os_unpark(
        &((blocking_thread *)(void *)((char *)s - offsetof(blocking_thread, sleeper)))->park_word);
}

/* The call has returned. Its argument is released first: the waiter may rely on that. */
static void job_finish(aw__blocking *b, aw__job *j, const struct job_call *call, long out) {
    uint32_t *lock = &j->list->lock;
    aw_waker later;
    bool wake_later = false;
    if (call->release) call->release(call->arg);
    aw__limit_give(&b->calls);
    aw__lock(lock);
    aw_blocking_future *f = j->future;
    if (f) {
        f->out = out;
        wake_later = aw__wake_or_clone(&j->waker, &later);
        aw__store_relaxed(&j->stage, AW__JOB_DONE); /* once the lock is free the job may be gone */
    }
    aw__unlock(lock);
    if (wake_later) aw_waker_wake(later);
    if (f) return;
    aw__free(j->allocator, j, sizeof *j);
    aw__fetch_sub(&b->detached, 1u);
    if (call->rt) aw__rt_unref(call->rt);
}

/* Touches nothing of the runtime once `fn` has returned: a thread that waits for that may have
 * freed it. */
static long job_run(const struct job_call *call, uint32_t *hold) {
    aw__context = (struct aw__context){.entered = call->rt, .held = call->rt, .hold = hold};
    long out = call->fn(call->arg);
    aw__context = (struct aw__context){0};
    return out;
}

/* One thread less. Loads `stop` after the decrement: see aw__blocking_join. */
static uint32_t blocking_count_down(aw__blocking *b) {
    uint32_t before = aw__fetch_add_seq(&b->threads, -1u);
    if (aw__load_seq(&b->stop)) aw__os_unpark(&b->end_word);
    return before;
}

static void wake_or_start_thread(aw__blocking *b);

static void *blocking_thread_main(void *arg) {
    blocking_thread self = *(blocking_thread *)arg, *t = &self;
    aw__blocking *b = t->pool;
    aw__free(b->allocator, arg, sizeof *t);
    aw__thread_begins(&b->setup, AW_THREAD_BLOCKING, t->index);
    bool searching = true; /* it was started for a job, and is counted as searching */
    for (;;) {
        struct job_call call;
        aw__job *j = job_take(b, t->index, &call);
        if (j) {
            /* Rule 2 of idle.h: submitters meanwhile have relied on this thread. */
            if (searching && aw__idle_found(&b->idle)) wake_or_start_thread(b);
            searching = false;
            job_finish(b, j, &call, job_run(&call, &j->hold));
            continue;
        }
        bool last = aw__idle_park(&b->idle, &t->sleeper, searching), in_time = true;
        bool work = last && has_jobs(b);
        if (!work && !aw__load_acquire(&b->stop))
            in_time = aw__os_park(&t->park_word, aw__os_now() + b->idle_time);
        searching = aw__idle_unpark(&b->idle, &t->sleeper);
        if (work && !searching) searching = aw__idle_search_on(&b->idle);
        if (!searching && (!in_time || aw__load_acquire(&b->stop)) && !has_jobs(b)) break;
    }
    aw__thread_ends(&b->setup, AW_THREAD_BLOCKING, t->index);
    blocking_count_down(b);
    /* A submitter that counted on this thread has pushed its job before it loaded `threads`. */
    if (has_jobs(b)) wake_or_start_thread(b);
    blocking_unref(b);
    return NULL;
}

/* The caller has counted it in `threads`. */
static int start_thread(aw__blocking *b) {
    blocking_thread *t = aw__alloc(b->allocator, sizeof *t);
    if (!t) return -ENOMEM;
    *t = (blocking_thread){.pool = b, .index = aw__fetch_add_relaxed(&b->started, 1u)};
    aw__fetch_add(&b->refs, 1u);
    aw__fetch_add_seq(&b->idle.word, AW__SEARCHING);
    int error = aw__os_thread(NULL, blocking_thread_main, t);
    if (!error) return 0;
    aw__fetch_add_seq(&b->idle.word, -AW__SEARCHING);
    aw__fetch_sub(&b->refs, 1u);
    aw__free(b->allocator, t, sizeof *t);
    return error;
}

/* A job is queued: wakes a thread or starts one, unless a thread already searches. */
static void wake_or_start_thread(aw__blocking *b) {
    aw__sleeper *s = aw__idle_notify(&b->idle);
    if (s) {
        unpark_thread(s);
        return;
    }
    if (aw__idle_searching(aw__load_seq(&b->idle.word)) || !has_jobs(b)) return;
    uint32_t n = aw__load_seq(&b->threads);
    do
        if (n >= b->max_threads) return;
    while (!aw__cas_seq(&b->threads, &n, n + 1));
    if (aw__load_seq(&b->stop)) { /* the jobs have been failed: see aw__blocking_stop */
        blocking_count_down(b);
        return;
    }
    if (start_thread(b) == 0 || blocking_count_down(b) > 1) return;
    /* No thread exists, and none can be started: fail all queued jobs, also those of submitters
     * that relied on this one. */
    struct job_call call;
    for (aw__job *j; (j = job_take(b, 0, &call));)
        job_finish(b, j, &call, -EAGAIN);
}

/* ---- The pool -------------------------------------------------------------------------------- */

/* Stands for the pool of a runtime that ended before its first blocking call. */
static aw__blocking ended_pool = {.stop = 1};

static aw__blocking *blocking_new(const aw_runtime *rt) {
    aw__blocking *b;
    void *memory = aw__alloc(rt->base.allocator, sizeof *b + 64);
    if (!memory) return NULL;
    memset(memory, 0, sizeof *b + 64);
    b = (aw__blocking *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    b->memory = memory;
    b->allocator = rt->base.allocator;
    b->refs = 1;
    b->max_threads = rt->blocking_threads;
    if (rt->max_blocking)
        b->calls.max = rt->max_blocking < UINT32_MAX - b->max_threads
                           ? rt->max_blocking + b->max_threads
                           : UINT32_MAX;
    b->idle_time = rt->blocking_idle;
    b->setup = rt->threads;
    return b;
}

int aw__blocking_of(aw_runtime *rt, aw__blocking **b) {
    aw__blocking *created = NULL, *existing = aw__load_acquire(&rt->blocking);
    if (!existing && !(created = blocking_new(rt))) return -ENOMEM;
    if (created && !aw__cas(&rt->blocking, &existing, created)) blocking_free(created);
    *b = existing ? existing : created;
    return aw__load_acquire(&(*b)->stop) ? -ESHUTDOWN : 0;
}

aw__blocking *aw__blocking_stop(aw_runtime *rt) {
    aw__blocking *b = NULL;
    if (aw__cas(&rt->blocking, &b, &ended_pool) || b == &ended_pool) return NULL;
    aw__store_seq(&b->stop, 1u);
    /* job_take skips a list that looks empty. After each lock was taken once, every submitter has
     * either published its job or sees `stop`. */
    for (int i = 0; i < AW__JOB_LISTS; i++) {
        aw__lock(&b->lists[i].lock);
        aw__unlock(&b->lists[i].lock);
    }
    struct job_call call;
    for (aw__job *j; (j = job_take(b, 0, &call));)
        job_finish(b, j, &call, -ESHUTDOWN);
    aw__lock(&b->idle.lock);
    for (aw__sleeper *s = b->idle.first; s; s = s->next)
        unpark_thread(s);
    aw__unlock(&b->idle.lock);
    return b;
}

/* `stop` was stored before this loads which threads exist; a thread counts itself as asleep or
 * gone, or as started, and then loads `stop`: one of them sees the other. */
uint32_t aw__blocking_join(aw__blocking *b) {
    uint32_t detached;
    while (aw__load_seq(&b->threads) > (detached = aw__load_acquire(&b->detached)))
        aw__os_park(&b->end_word, AW_FOREVER);
    /* The threads are about to exit; after this only detached jobs use the runtime's allocator. */
    for (int tries = 0;
         aw__load_acquire(&b->refs) > 1 + (detached = aw__load_acquire(&b->detached));)
        aw__os_wait(&tries);
    return detached;
}

void aw__blocking_forget(aw_runtime *rt) {
    if (rt->blocking && rt->blocking != &ended_pool) blocking_free(rt->blocking);
    rt->blocking = NULL;
}

void aw__blocking_drop(aw_runtime *rt) {
    if (rt->blocking && rt->blocking != &ended_pool) blocking_unref(rt->blocking);
}

/* ---- The future ------------------------------------------------------------------------------ */

enum { BLOCKING_FRESH, BLOCKING_WAITING }; /* state */

static aw__job *job_of(aw_blocking_future *f) {
    return f->job ? f->job : (aw__job *)(void *)&f->inline_storage;
}

static aw_poll blocking_fail(aw_blocking_future *f, long error) {
    f->out = error;
    if (f->release) f->release(f->arg);
    return AW_READY;
}

/* The runtime has ended since the job was set up. */
static aw_poll blocking_refuse(aw_blocking_future *f, aw_cx *cx) {
    aw__job *j = job_of(f);
    aw__limit_give(&j->pool->calls);
    if (f->job) aw__free(j->allocator, j, sizeof *j);
    aw_cx_disarm(cx);
    aw_runtime_unhold(f->rt);
    return blocking_fail(f, -ESHUTDOWN);
}

static aw_poll blocking_begin(aw_blocking_future *f, aw_cx *cx) {
    aw_runtime *rt = aw_cx_runtime(cx);
    if (!rt) {
        aw_log(
            AW_LOG_PROBLEM,
            "a blocking call was polled outside a runtime: enter one (aw_enter) or use block_on");
        return blocking_fail(f, -ENXIO);
    }
    aw__blocking *b;
    int error = aw__blocking_of(rt, &b);
    if (error) return blocking_fail(f, error);
    if (!aw__limit_take(&b->calls)) return blocking_fail(f, -EAGAIN);
    if (f->release && !(f->job = aw__alloc(rt->base.allocator, sizeof(aw__job)))) {
        aw__limit_give(&b->calls);
        return blocking_fail(f, -ENOMEM);
    }
    aw__job *j = job_of(f);
    *j = (aw__job){.future = f, .pool = b, .allocator = rt->base.allocator, .waker = *cx->waker};
    f->future.state = BLOCKING_WAITING;
    f->rt = rt;
    aw_cx_arm(cx);
    aw_runtime_hold(rt); /* a paused clock waits for the call */
    if (!job_push(b, j)) return blocking_refuse(f, cx);
    wake_or_start_thread(b);
    return AW_PENDING;
}

static aw_poll blocking_finish(aw_blocking_future *f, aw_cx *cx) {
    aw__job *j = job_of(f);
    if (aw_waker_will_wake(&j->waker, cx->waker)) aw_cx_disarm(cx);
    if (f->job) aw__free(j->allocator, j, sizeof *j);
    aw_runtime_unhold(f->rt);
    return AW_READY;
}

static aw_poll blocking_poll(aw_future *self, aw_cx *cx) {
    aw_blocking_future *f = (aw_blocking_future *)self;
    if (self->state == BLOCKING_FRESH) return blocking_begin(f, cx);
    aw__job *j = job_of(f);
    aw__lock(&j->list->lock);
    bool done = j->stage == AW__JOB_DONE;
    bool same = aw_waker_will_wake(&j->waker, cx->waker);
    if (!done || aw_cx_exhausted(cx)) j->waker = *cx->waker;
    aw__unlock(&j->list->lock);
    /* Another task waits now; the old one keeps its count. */
    if (!same && !done) aw_cx_arm(cx);
    return done && aw_cx_spend(cx) ? blocking_finish(f, cx) : AW_PENDING;
}

static aw_poll blocking_cancel(aw_future *self, aw_cx *cx) {
    aw_blocking_future *f = (aw_blocking_future *)self;
    if (self->state == BLOCKING_FRESH) {
        if (f->release) f->release(f->arg);
        return AW_CANCELLED;
    }
    aw__job *j = job_of(f);
    struct aw__job_list *l = j->list;
    /* The reference of the call, in case it is detached. */
    aw_runtime *referenced = f->release ? entered_runtime(f) : NULL;
    bool held = true;
    if (referenced) aw__rt_ref(referenced);
    aw__lock(&l->lock);
    enum aw__job_stage stage = j->stage;
    bool same = aw_waker_will_wake(&j->waker, cx->waker);
    if (stage == AW__JOB_QUEUED) {
        job_unlink(j);
        aw__limit_give(&j->pool->calls);
    }
    if (stage == AW__JOB_RUNNING && f->release) {
        j->future = NULL;
        held = aw__hold_end(&j->hold);
        aw__fetch_add(&j->pool->detached, 1u);
        referenced = NULL;
    }
    if (stage == AW__JOB_RUNNING) j->waker = *cx->waker;
    aw__unlock(&l->lock);
    if (referenced) aw__rt_unref(referenced);
    if (stage == AW__JOB_DONE) return blocking_finish(f, cx);
    if (stage == AW__JOB_RUNNING && !f->release) {
        if (!same) aw_cx_arm(cx);
        return AW_PENDING;
    }
    if (same) aw_cx_disarm(cx);
    if (stage == AW__JOB_QUEUED) {
        if (f->release) f->release(f->arg);
        if (f->job) aw__free(j->allocator, j, sizeof *j);
    }
    if (held) aw_runtime_unhold(f->rt);
    return AW_CANCELLED;
}

static void blocking_describe(const aw_future *self, char *buf, size_t size) {
    const aw_blocking_future *f = (const aw_blocking_future *)self;
    if (self->state == BLOCKING_FRESH) return;
    const aw__job *j = job_of((aw_blocking_future *)(uintptr_t)f);
    snprintf(buf, size,
             aw__load_relaxed(&j->stage) == AW__JOB_QUEUED ? "waits for a thread" : "runs");
}

const aw_future_type aw_blocking_type = {
    AW_TYPE_OF(aw_blocking_future, "blocking call"),
    .flags = AW_OUT_ERRNO,
    .poll = blocking_poll,
    .cancel = blocking_cancel,
    .describe = blocking_describe,
};
