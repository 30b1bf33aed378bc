/* SPDX-License-Identifier: MIT
 *
 * block_on of a runtime with workers. */
#include "workers/main.h"

#include <errno.h>

#include "core/alloc.h"
#include "core/misuse.h"
#include "core/unstarted.h"
#include "os/park.h"
#include "workers/pool.h"
#include "workers/quiet.h"

/* ---- The waker -------------------------------------------------------------------------------- */

void aw__main_wake(aw__main *m) {
    if (aw__fetch_or(&m->state, (uint32_t)AW__MAIN_WOKEN) == AW__MAIN_ASLEEP)
        aw__os_unpark(&m->park_word);
}

void aw__mains_each_asleep(aw__pool *p, void (*f)(aw__task *t, void *data), void *data) {
    aw__lock(&p->look_lock);
    aw__lock(&p->rt->lock);
    for (aw__main *m = p->mains; m; m = m->next) {
        bool own = aw__thread.main == &m->task;
        if (!own && !aw__main_watch(m)) continue;
        f(&m->task, data);
        if (!own) aw__main_unwatch(m);
    }
    aw__unlock(&p->rt->lock);
    aw__unlock(&p->look_lock);
}

/* One is part of the pool: mostly there is no other. */
static aw__main *new_main(aw__pool *p) {
    uint32_t free = 0;
    if (aw__cas(&p->main_used, &free, 1u)) return &p->main;
    return aw__alloc(p->rt->allocator, sizeof(aw__main));
}

static void free_main(aw__pool *p, aw__main *m) {
    if (m == &p->main)
        aw__store_release(&p->main_used, 0u);
    else
        aw__release(p->rt->allocator, m, sizeof *m);
}

/* The last reference of others may have been what kept this from being a deadlock. */
static void release(aw__main *m) {
    aw__pool *p = aw__task_rt(&m->task)->pool;
    aw__pool_keep(p);
    if (aw__fetch_sub_seq(&m->refs, 1u) == 1) {
        if (m->task.place & 1) aw__locals_free(&m->task);
        free_main(p, m);
        aw__pool_unkeep(p);
    } else {
        aw__pool_look(p);
    }
    aw__pool_unkeep(p);
}

static aw_waker waker_clone(void *data);
static void waker_wake_by_ref(void *data) {
    aw__main_wake(data);
}
static void waker_wake(void *data) {
    aw__main_wake(data);
    release(data);
}
static void waker_drop(void *data) {
    release(data);
}
static const aw_waker_type waker_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "main",
    .flags = AW_WAKES_UNDER_LOCK, /* it touches nothing but its state */
    .clone = waker_clone,
    .wake = waker_wake,
    .wake_by_ref = waker_wake_by_ref,
    .drop = waker_drop,
};
static aw_waker waker_clone(void *data) {
    aw__fetch_add_relaxed(&((aw__main *)data)->refs, 1u);
    return (aw_waker){&waker_type, data};
}

/* ---- block_on --------------------------------------------------------------------------------- */

static void enter(aw_runtime *rt, aw__main *m) {
    aw__fetch_add(&rt->besides, 1u);
    aw__lock(&rt->lock);
    m->next = rt->pool->mains;
    rt->pool->mains = m;
    aw__unlock(&rt->lock);
    aw__thread.beside = rt;
    aw__thread.main = &m->task;
}

static void leave(aw_runtime *rt, aw__main *m) {
    aw__thread.main = NULL;
    aw__thread.beside = NULL;
    aw__lock(&rt->lock);
    aw__main **at = &rt->pool->mains;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    aw__unlock(&rt->lock);
    if (m->task.place & 1) aw__locals_release(&m->task);
    aw__pool_keep(rt->pool);
    aw__rt_unhold(rt, &rt->besides);
    release(m);
    aw__pool_unkeep(rt->pool);
}

/* Pending, and nobody could wake it. */
static bool is_lost(const aw__main *m) {
    return m->task.armed <= 0 && aw__load_acquire(&m->refs) == 1 &&
           aw__load_acquire(&m->state) == AW__MAIN_POLLING;
}

static void fall_asleep(aw__pool *p, aw__main *m) {
    uint32_t polling = AW__MAIN_POLLING;
    if (m->outside != m->meter.outside) aw__store_seq(&m->outside, (int64_t)m->meter.outside);
    if (!aw__cas_seq(&m->state, &polling, (uint32_t)AW__MAIN_ASLEEP)) return;
    aw__pool_look(p);
    while (aw__load_acquire(&m->state) != (AW__MAIN_ASLEEP | AW__MAIN_WOKEN))
        aw__os_park(&m->park_word, AW_FOREVER);
}

/* One poll or cancel, and what it counted. */
static aw_poll call(aw__pool *p, aw__main *m, aw_cx *cx, bool cancel) {
    aw__exchange(&m->state, (uint32_t)AW__MAIN_POLLING);
    m->meter.budget = m->task.flags & AW__FREELY ? UINT32_MAX : p->rt->budget;
    m->meter.armed = m->meter.cancelling = m->meter.fail = 0;
    aw_poll r = cancel ? aw_future_cancel(m->future, cx) : aw_future_poll(m->future, cx);
    m->task.armed += m->meter.armed;
    if (m->meter.cancelling || m->task.flags & AW__COUNTED)
        aw__pool_count_cancels(p, &m->task, m->meter.cancelling, r != AW_PENDING);
    return r;
}

static int run(aw__pool *p, aw__main *m) {
    aw_waker waker = {&waker_type, m};
    aw_cx cx = {&waker, p->rt, &m->meter};
    int error = 0; /* why it is being cancelled */
    for (;;) {
        if (aw__load_acquire(&m->stuck) && !error) {
            if (m->reports) aw__report_deadlock(p->rt);
            error = -EDEADLK;
        } else if (aw__load_acquire(&m->stuck) > 1) {
            aw__misuse("the main future '%s' cannot be cancelled: nothing will wake it",
                       m->future->type->name);
        }
        aw_poll r = call(p, m, &cx, error != 0);
        if (r != AW_PENDING) {
            aw__check_left_by_main(m->future, m->meter.opened);
            return r == AW_READY ? 0 : error;
        }
        if (m->meter.fail) { /* cancel it at once; also what fails once more in its cleanup */
            if (!error) error = m->meter.fail;
            continue;
        }
        if (is_lost(m)) aw__report_lost(p->rt, &m->task);
        fall_asleep(p, m);
    }
}

int aw__pool_block_on(aw_runtime *rt, aw_future *f) {
    aw__main *m = new_main(rt->pool);
    if (!m) {
        aw__cancel_unstarted(f);
        return -ENOMEM;
    }
    *m = (aw__main){
        .room.rt = rt,
        .task = {.room = sizeof(aw__room) / AW__ROOM_STEP, .flags = AW__MAIN},
        .state = AW__MAIN_POLLING,
        .refs = 1,
        .future = f,
        .meter = {.stack_size = rt->meter.stack_size, .random = rt->meter.random},
    };
    aw__pool_keep(rt->pool);
    enter(rt, m);
    int error = run(rt->pool, m);
    leave(rt, m);
    return error;
}
