/* SPDX-License-Identifier: MIT
 *
 * block_on of a multi-thread runtime; see pool_block_on.h. */
#include "sched/multi/pool_block_on.h"

#include <errno.h>

#include "base/allocate.h"
#include "base/list.h"
#include "base/misuse.h"
#include "future/unstarted.h"
#include "os/park.h"
#include "sched/multi/monitor.h"
#include "sched/multi/pool.h"
#include "sched/multi/quiescence.h"
#include "sched/report.h"
#include "task/hold.h"
#include "task/locals.h"

/* ---- References and wakers ------------------------------------------------------------------- */

void aw__block_on_wake(aw__block_on *b) {
    if (aw__fetch_or(&b->state, (uint32_t)AW__BLOCK_ON_WOKEN) == AW__BLOCK_ON_ASLEEP)
        aw__os_unpark(&b->park_word);
}

void aw__block_on_each_asleep(aw__pool *p, void (*f)(const aw__task_view *v, void *data),
                              void *data) {
    aw__lock(&p->quiescence_lock);
    aw__lock(&p->rt->base.lock);
    for (aw__block_on *b = p->block_ons; b; b = b->next) {
        bool mine = aw__context.main == &b->task;
        if (!mine && !aw__block_on_watch(b)) continue;
        f(&(aw__task_view){&b->task, b->main.future, b->main.error != 0}, data);
        if (!mine) aw__block_on_unwatch(b);
    }
    aw__unlock(&p->rt->base.lock);
    aw__unlock(&p->quiescence_lock);
}

/* One is part of the pool: usually there is no other. */
static aw__block_on *block_on_alloc(aw__pool *p) {
    uint32_t free = 0;
    if (aw__cas(&p->first_block_on_used, &free, 1u)) return &p->first_block_on;
    return aw__alloc(p->rt->base.allocator, sizeof(aw__block_on));
}

static void block_on_free(aw__pool *p, aw__block_on *b) {
    if (b == &p->first_block_on)
        aw__store_release(&p->first_block_on_used, 0u);
    else
        aw__free(p->rt->base.allocator, b, sizeof *b);
}

/* Dropping the reference of a waker may leave a deadlock: check. */
static void block_on_unref(aw__block_on *b) {
    aw__pool *p = aw__task_rt(&b->task)->pool;
    aw__pool_ref(p);
    if (aw__fetch_sub_seq(&b->refs, 1u) == 1) {
        if (b->task.location & 1) aw__locals_free(&b->task);
        block_on_free(p, b);
        aw__pool_unref(p);
    } else {
        aw__pool_check_quiescence(p);
    }
    aw__pool_unref(p);
}

static aw_waker block_on_waker_clone(void *data);
static void block_on_waker_wake_by_ref(void *data) {
    aw__block_on_wake(data);
}
static void block_on_waker_wake(void *data) {
    aw__block_on_wake(data);
    block_on_unref(data);
}
static void block_on_waker_drop(void *data) {
    block_on_unref(data);
}
static const aw_waker_type block_on_waker_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "main",
    .flags = AW_WAKES_UNDER_LOCK, /* it touches only the state and the park word */
    .clone = block_on_waker_clone,
    .wake = block_on_waker_wake,
    .wake_by_ref = block_on_waker_wake_by_ref,
    .drop = block_on_waker_drop,
};
static aw_waker block_on_waker_clone(void *data) {
    aw__fetch_add_relaxed(&((aw__block_on *)data)->refs, 1u);
    return (aw_waker){&block_on_waker_type, data};
}

/* ---- block_on -------------------------------------------------------------------------------- */

static void block_on_enter(aw_runtime *rt, aw__block_on *b) {
    aw__fetch_add(&rt->followers, 1u);
    aw__lock(&rt->base.lock);
    aw__list_insert_head(&rt->pool->block_ons, b);
    aw__unlock(&rt->base.lock);
    /* From now on `state` shows whether this thread waits. */
    if (aw__context.held == rt) aw__hold_pause(rt, aw__context.hold);
    aw__context.main = &b->task;
    aw__context_follow(rt, &aw__context.main);
}

static void block_on_exit(aw_runtime *rt, aw__block_on *b) {
    aw__context_leave();
    if (aw__context.held == rt) aw__hold_resume(rt, aw__context.hold);
    aw__lock(&rt->base.lock);
    aw__list_remove(&rt->pool->block_ons, b);
    aw__unlock(&rt->base.lock);
    if (b->task.location & 1) aw__locals_release(&b->task);
    aw__pool_ref(rt->pool);
    aw__rt_unhold(rt, &rt->followers);
    block_on_unref(b);
    aw__pool_unref(rt->pool);
}

/* Pending, and nothing can wake it. */
static bool block_on_is_lost(const aw__block_on *b) {
    return b->task.armed <= 0 && aw__load_acquire(&b->refs) == 1 &&
           aw__load_acquire(&b->state) == AW__BLOCK_ON_POLLING;
}

static void block_on_sleep(aw__pool *p, aw__block_on *b) {
    uint32_t polling = AW__BLOCK_ON_POLLING;
    if (b->outside != b->main.outside) aw__store_seq(&b->outside, (int64_t)b->main.outside);
    if (!aw__cas_seq(&b->state, &polling, (uint32_t)AW__BLOCK_ON_ASLEEP)) return;
    aw__pool_check_quiescence(p);
    while (aw__load_acquire(&b->state) != (AW__BLOCK_ON_ASLEEP | AW__BLOCK_ON_WOKEN))
        aw__os_park(&b->park_word, AW_FOREVER);
}

static int block_on_run(aw__pool *p, aw__block_on *b) {
    aw_waker waker = {&block_on_waker_type, b};
    for (;;) {
        if (aw__load_acquire(&b->deadlocks) && !b->main.error) {
            if (b->reports_deadlock) aw__report_deadlock(p->rt);
            b->main.error = -EDEADLK;
        } else if (aw__load_acquire(&b->deadlocks) > 1) {
            aw__misuse("the main future '%s' cannot be cancelled: nothing will wake it",
                       b->main.future->type->name);
        }
        aw__exchange(&b->state, (uint32_t)AW__BLOCK_ON_POLLING);
        aw_poll r = aw__main_poll(p->rt, &b->main, &b->task, &waker);
        if (r != AW_PENDING) return r == AW_READY ? 0 : b->main.error;
        if (block_on_is_lost(b)) aw__report_lost(p->rt, &b->task, b->main.future);
        block_on_sleep(p, b);
    }
}

int aw__pool_block_on(aw_runtime *rt, aw_future *f) {
    aw__block_on *b = block_on_alloc(rt->pool);
    if (!b) {
        aw__cancel_unstarted(f);
        return -ENOMEM;
    }
    *b = (aw__block_on){
        .slab.rt = rt,
        .task = {.slab_offset = sizeof(aw__slab) / AW__SLAB_STEP, .flags = AW__MAIN},
        .state = AW__BLOCK_ON_POLLING,
        .refs = 1,
        .main = aw__main_future_of(rt, f),
    };
    aw__pool_ref(rt->pool);
    block_on_enter(rt, b);
    int error = block_on_run(rt->pool, b);
    block_on_exit(rt, b);
    return error;
}

void aw__block_on_leave(aw__block_on *b) {
    aw__fetch_add(&aw__task_rt(&b->task)->holds, 1u);
    aw__store_seq(&b->outside, b->outside + 1);
    aw__fetch_or(&b->state, (uint32_t)AW__BLOCK_ON_IN_PLACE);
}

void aw__block_on_return(aw__block_on *b) {
    aw_runtime *rt = aw__task_rt(&b->task);
    aw__fetch_and(&b->state, ~(uint32_t)AW__BLOCK_ON_IN_PLACE);
    aw__store_seq(&b->outside, b->outside - 1);
    aw__rt_unhold(rt, &rt->holds);
}
