/* SPDX-License-Identifier: MIT
 *
 * Blocking calls: the future, and the threads that make them. */
#include "blocking/blocking.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/misuse.h"
#include "core/wake.h"
#include "os/park.h"
#include "os/thread.h"
#include "runtime/runtime.h"

typedef struct thread {
    aw__sleeper sleeper;
    uint32_t park_word;
    uint32_t index;
    aw__blocking *pool;
} thread;

/* ---- Lists ------------------------------------------------------------------------------------ */

/* Under the lock of the list. */
static void unlink_job(aw__job *j) {
    struct aw__job_list *l = j->list;
    if (j->next)
        j->next->prev = j->prev;
    else
        l->last = j->prev;
    if (j->prev)
        j->prev->next = j->next;
    else
        aw__store_seq(&l->first, j->next);
}

static void push(aw__blocking *b, aw__job *j) {
    struct aw__job_list *l = &b->lists[aw__fetch_add_relaxed(&b->next, 1u) % AW__JOB_LISTS];
    aw__lock(&l->lock);
    j->list = l;
    j->next = NULL;
    j->prev = l->last;
    if (j->prev)
        j->prev->next = j;
    else
        aw__store_seq(&l->first, j);
    l->last = j;
    aw__unlock(&l->lock);
}

static bool anything(const aw__blocking *b) {
    for (int i = 0; i < AW__JOB_LISTS; i++)
        if (aw__load_seq(&b->lists[i].first)) return true;
    return false;
}

/* What is to be called. The future may be given up and gone as soon as the lock of the list is free. */
struct call {
    long (*fn)(void *arg);
    void (*release)(void *arg);
    void *arg;
};

static aw__job *take(aw__blocking *b, uint32_t start, struct call *call) {
    for (uint32_t i = 0; i < AW__JOB_LISTS; i++) {
        struct aw__job_list *l = &b->lists[(start + i) % AW__JOB_LISTS];
        if (!aw__load_seq(&l->first)) continue;
        aw__lock(&l->lock);
        aw__job *j = l->first;
        if (j) {
            unlink_job(j);
            aw__store_relaxed(&j->stage, AW__JOB_RUNNING);
            *call = (struct call){j->future->fn, j->future->release, j->future->arg};
        }
        aw__unlock(&l->lock);
        if (j) return j;
    }
    return NULL;
}

/* ---- Threads ---------------------------------------------------------------------------------- */

void aw__blocking_forget(aw__blocking *b) {
    aw__release(b->allocator, b->memory, sizeof *b + 64);
}

static void release_pool(aw__blocking *b) {
    if (aw__fetch_sub(&b->owners, 1u) == 1) aw__blocking_forget(b);
}

static void unpark(aw__sleeper *s) {
    aw__os_unpark(&((thread *)(void *)((char *)s - offsetof(thread, sleeper)))->park_word);
}

/* It is over. The call's memory goes first: who is told may rely on that. */
static void finish_job(aw__blocking *b, aw__job *j, const struct call *call, long out) {
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
    aw__release(j->allocator, j, sizeof *j);
    aw__fetch_sub(&b->detached, 1u);
}

static void find_help(aw__blocking *b);

static void *thread_main(void *arg) {
    thread self = *(thread *)arg, *t = &self;
    aw__blocking *b = t->pool;
    aw__release(b->allocator, arg, sizeof *t);
    aw__thread_begins(&b->setup, AW_THREAD_BLOCKING, t->index);
    bool searching = true; /* it was started for a job, and counted so */
    for (;;) {
        struct call call;
        aw__job *j = take(b, t->index, &call);
        if (j) {
            if (searching && aw__idle_found(&b->idle))
                find_help(b); /* those who came meanwhile relied on us */
            searching = false;
            finish_job(b, j, &call, call.fn(call.arg));
            continue;
        }
        bool last = aw__idle_park(&b->idle, &t->sleeper, searching), in_time = true;
        bool work = last && anything(b);
        if (!work && !aw__load_acquire(&b->stop))
            in_time = aw__os_park(&t->park_word, aw__os_now() + b->idle_time);
        searching = aw__idle_unpark(&b->idle, &t->sleeper);
        if (work && !searching) searching = aw__idle_search_on(&b->idle);
        if (!searching && (!in_time || aw__load_acquire(&b->stop)) && !anything(b)) break;
    }
    aw__thread_ends(&b->setup, AW_THREAD_BLOCKING, t->index);
    aw__fetch_add_seq(&b->threads, -1u); /* and then look: see aw__blocking_end */
    if (aw__load_seq(&b->stop)) aw__os_unpark(&b->end_word);
    release_pool(b);
    return NULL;
}

/* It is counted among the threads already. */
static int start_thread(aw__blocking *b) {
    thread *t = aw__alloc(b->allocator, sizeof *t);
    if (!t) return -ENOMEM;
    *t = (thread){.pool = b, .index = aw__fetch_add_relaxed(&b->started, 1u)};
    aw__fetch_add(&b->owners, 1u);
    aw__fetch_add_seq(&b->idle.word, AW__SEARCHING);
    int error = aw__os_thread(NULL, thread_main, t);
    if (!error) return 0;
    aw__fetch_add_seq(&b->idle.word, -AW__SEARCHING);
    aw__fetch_sub(&b->owners, 1u);
    aw__release(b->allocator, t, sizeof *t);
    return error;
}

/* A job is waiting: wake a thread or start one, unless one is on its way. */
static void find_help(aw__blocking *b) {
    aw__sleeper *s = aw__idle_notify(&b->idle);
    if (s) {
        unpark(s);
        return;
    }
    if (aw__idle_searching(aw__load_seq(&b->idle.word)) || !anything(b)) return;
    uint32_t n = aw__load_relaxed(&b->threads);
    do
        if (n >= b->limit) return;
    while (!aw__cas(&b->threads, &n, n + 1));
    if (start_thread(b) == 0 || aw__fetch_sub(&b->threads, 1u) > 1) return;
    /* Those that are there would do it, but there is none; and somebody may have relied on us. */
    struct call call;
    for (aw__job *j; (j = take(b, 0, &call));)
        finish_job(b, j, &call, -EAGAIN);
}

/* ---- The pool --------------------------------------------------------------------------------- */

aw__blocking *aw__blocking_of(aw_runtime *rt) {
    aw__blocking *b = aw__load_acquire(&rt->blocking), *other = NULL;
    if (b) return b;
    void *memory = aw__alloc(rt->allocator, sizeof *b + 64);
    if (!memory) return NULL;
    memset(memory, 0, sizeof *b + 64);
    b = (aw__blocking *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    b->memory = memory;
    b->allocator = rt->allocator;
    b->owners = 1;
    b->limit = rt->blocking_threads;
    if (rt->max_blocking)
        b->calls.max = rt->max_blocking < UINT32_MAX - b->limit ? rt->max_blocking + b->limit
                                                                : UINT32_MAX;
    b->idle_time = rt->blocking_idle;
    b->setup = rt->threads;
    if (aw__cas(&rt->blocking, &other, b)) return b;
    aw__release(rt->allocator, memory, sizeof *b + 64);
    return other;
}

/* Says `stop`, and then looks who sleeps and who is left; a thread counts itself, asleep or gone, and then
 * looks at `stop`: one of them sees the other. */
uint32_t aw__blocking_end(aw__blocking *b) {
    aw__store_seq(&b->stop, 1u);
    aw__lock(&b->idle.lock);
    for (aw__sleeper *s = b->idle.first; s; s = s->next)
        unpark(s);
    aw__unlock(&b->idle.lock);
    uint32_t detached;
    while (aw__load_seq(&b->threads) > (detached = aw__load_acquire(&b->detached)))
        aw__os_park(&b->end_word, AW_FOREVER);
    /* They are about to leave; after this nobody uses the runtime's allocator but those that are busy. */
    for (int tries = 0;
         aw__load_acquire(&b->owners) > 1 + (detached = aw__load_acquire(&b->detached));)
        aw__os_wait(&tries);
    release_pool(b);
    return detached;
}

/* ---- The future ------------------------------------------------------------------------------- */

enum { FRESH, WAITING }; /* state */

static aw__job *job_of(aw_blocking_future *f) {
    return f->job ? f->job : (aw__job *)(void *)&f->own;
}

static aw_poll fail(aw_blocking_future *f, long error) {
    f->out = error;
    if (f->release) f->release(f->arg);
    return AW_READY;
}

static aw_poll begin(aw_blocking_future *f, aw_cx *cx) {
    aw_runtime *rt = aw_cx_runtime(cx);
    if (!rt) {
        aw_log(
            AW_LOG_PROBLEM,
            "a blocking call was polled outside a runtime: enter one (aw_enter) or use block_on");
        return fail(f, -ENXIO);
    }
    aw__blocking *b = aw__blocking_of(rt);
    if (!b) return fail(f, -ENOMEM);
    if (!aw__limit_take(&b->calls)) return fail(f, -EAGAIN);
    if (f->release && !(f->job = aw__alloc(rt->allocator, sizeof(aw__job)))) {
        aw__limit_give(&b->calls);
        return fail(f, -ENOMEM);
    }
    aw__job *j = job_of(f);
    *j = (aw__job){.future = f, .pool = b, .allocator = rt->allocator, .waker = *cx->waker};
    f->future.state = WAITING;
    f->rt = rt;
    aw_cx_arm(cx);
    aw_runtime_hold(rt); /* a paused clock waits for it */
    push(b, j);
    find_help(b);
    return AW_PENDING;
}

static aw_poll end(aw_blocking_future *f, aw_cx *cx) {
    aw__job *j = job_of(f);
    if (aw_waker_will_wake(&j->waker, cx->waker)) aw_cx_disarm(cx);
    if (f->job) aw__release(j->allocator, j, sizeof *j);
    aw_runtime_release(f->rt);
    return AW_READY;
}

static aw_poll blocking_poll(aw_future *self, aw_cx *cx) {
    aw_blocking_future *f = (aw_blocking_future *)self;
    if (self->state == FRESH) return begin(f, cx);
    aw__job *j = job_of(f);
    aw__lock(&j->list->lock);
    bool done = j->stage == AW__JOB_DONE;
    bool same = aw_waker_will_wake(&j->waker, cx->waker);
    if (!done || aw_cx_exhausted(cx)) j->waker = *cx->waker;
    aw__unlock(&j->list->lock);
    if (!same && !done)
        aw_cx_arm(cx); /* it is another task that waits now; the old one keeps its count */
    return done && aw_cx_spend(cx) ? end(f, cx) : AW_PENDING;
}

static aw_poll blocking_cancel(aw_future *self, aw_cx *cx) {
    aw_blocking_future *f = (aw_blocking_future *)self;
    if (self->state == FRESH) {
        if (f->release) f->release(f->arg);
        return AW_CANCELLED;
    }
    aw__job *j = job_of(f);
    struct aw__job_list *l = j->list;
    aw__lock(&l->lock);
    enum aw__job_stage stage = j->stage;
    bool same = aw_waker_will_wake(&j->waker, cx->waker);
    if (stage == AW__JOB_QUEUED) {
        unlink_job(j);
        aw__limit_give(&j->pool->calls);
    }
    if (stage == AW__JOB_RUNNING && f->release) {
        j->future = NULL;
        aw__fetch_add(&j->pool->detached, 1u);
    }
    if (stage == AW__JOB_RUNNING) j->waker = *cx->waker;
    aw__unlock(&l->lock);
    if (stage == AW__JOB_DONE) return end(f, cx);
    if (stage == AW__JOB_RUNNING && !f->release) {
        if (!same) aw_cx_arm(cx);
        return AW_PENDING;
    }
    if (same) aw_cx_disarm(cx);
    if (stage == AW__JOB_QUEUED) {
        if (f->release) f->release(f->arg);
        if (f->job) aw__release(j->allocator, j, sizeof *j);
    }
    aw_runtime_release(f->rt);
    return AW_CANCELLED;
}

static void blocking_describe(const aw_future *self, char *buf, size_t size) {
    const aw_blocking_future *f = (const aw_blocking_future *)self;
    if (self->state == FRESH) return;
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
