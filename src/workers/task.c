/* SPDX-License-Identifier: MIT
 *
 * The life of a task that any worker may run: spawned, woken, aborted, completed, released. word.h has
 * the protocol. */
#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "core/wake.h"
#include "os/park.h"
#include "workers/pool.h"
#include "workers/quiet.h"

static aw__pool *pool_of(const aw__task *t) {
    return aw__task_rt(t)->pool;
}

/* ---- The lists of all ------------------------------------------------------------------------- */

static struct aw__shard *shard_of(aw__pool *p, const aw__task *t) {
    return &p->shards[t->id_low % AW__SHARDS];
}

/* False: the runtime is ending. It looks at every list after it has said so. */
static bool list_add(aw__pool *p, aw__task *t) {
    struct aw__shard *s = shard_of(p, t);
    aw__room *r = aw__task_room(t);
    aw__lock(&s->lock);
    bool open = !aw__load_acquire(&p->rt->closing);
    if (open) {
        r->prev = NULL;
        r->next = s->rooms;
        if (r->next) r->next->prev = r;
        s->rooms = r;
    }
    aw__unlock(&s->lock);
    return open;
}

static void list_remove(aw__pool *p, aw__task *t) {
    struct aw__shard *s = shard_of(p, t);
    aw__room *r = aw__task_room(t);
    aw__lock(&s->lock);
    if (r->next) r->next->prev = r->prev;
    if (r->prev)
        r->prev->next = r->next;
    else
        s->rooms = r->next;
    aw__unlock(&s->lock);
}

void aw__pool_abort_all(aw__pool *p) {
    for (int i = 0; i < AW__SHARDS; i++) {
        struct aw__shard *s = &p->shards[i];
        aw__lock(&s->lock);
        for (aw__room *r = s->rooms; r; r = r->next)
            aw__pool_abort((aw__task *)(void *)(r + 1));
        aw__unlock(&s->lock);
    }
}

void aw__pool_each(aw__pool *p, void (*waits)(aw__task *t, void *data),
                   void (*runs)(aw__task *t, void *data), void *data) {
    aw__lock(&p->look_lock); /* who looks whether all sleep shall not take us for workers */
    for (int i = 0; i < AW__SHARDS; i++) {
        struct aw__shard *s = &p->shards[i];
        aw__lock(&s->lock);
        for (aw__room *r = s->rooms; r; r = r->next) {
            aw__task *t = (aw__task *)(void *)(r + 1);
            if (aw__word_watch(&t->word)) {
                waits(t, data);
                if (aw__word_pend(&t->word)) aw__pool_schedule(p, t, false);
            } else if (runs) {
                runs(t, data);
            }
        }
        aw__unlock(&s->lock);
    }
    aw__unlock(&p->look_lock);
}

/* One less; who ends the runtime waits for the last. Either we see that it is closing, or abandoned, or it
 * sees that nobody is left. */
static void count_down(aw__pool *p) {
    if (aw__fetch_add_seq(&p->live, ~(uint64_t)0) != 1 || !aw__load_seq(&p->rt->closing)) return;
    aw__os_unpark(&p->ended_word);
    if (aw__load_seq(&p->abandoned)) aw__monitor_wake(p);
}

/* ---- References and wakers -------------------------------------------------------------------- */

static void give_room_back(aw__task *t) {
    aw_runtime *rt = aw__task_rt(t);
    if (AW__UNLIKELY(t->place & 1)) aw__locals_free(t);
    aw__shelf_give(rt->pool, t);
    aw__pool_unkeep(rt->pool);
}

void aw__pool_release(aw__task *t) {
    if (aw__word_unref(&t->word)) give_room_back(t);
}

/* The same by any thread: it may have been what kept this from being a deadlock. A worker looks when it
 * falls asleep. */
static void let_go(aw__task *t) {
    aw__pool *p = pool_of(t);
    bool last;
    if (aw__thread.worker && aw__thread.worker->pool == p) {
        aw__pool_release(t);
        return;
    }
    if (aw__word_unref_unasked(&t->word, &last)) {
        if (last) give_room_back(t);
        return;
    }
    aw__pool_keep(p);
    aw__word_answer(&t->word);
    aw__pool_release(t);
    aw__pool_look(p);
    aw__pool_unkeep(p);
}

static void wake(aw__task *t) {
    aw__worker *w = aw__thread.worker;
    if (w && w->current == t) {
        w->woken = true;
        if (!w->meter.yielding) w->eager = true;
        return;
    }
    if (aw__word_wake(&t->word)) aw__pool_schedule(pool_of(t), t, false);
}

static aw_waker waker_clone(void *data) {
    aw__word_ref(&((aw__task *)data)->word);
    return (aw_waker){&aw__pool_waker_type, data};
}
static void waker_wake_by_ref(void *data) {
    wake(data);
}
static void waker_wake(void *data) {
    wake(data);
    let_go(data);
}
static void waker_drop(void *data) {
    let_go(data);
}

const aw_waker_type aw__pool_waker_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "task",
    .flags = AW_WAKES_UNDER_LOCK,
    .clone = waker_clone,
    .wake = waker_wake,
    .wake_by_ref = waker_wake_by_ref,
    .drop = waker_drop,
};

/* ---- Spawn ------------------------------------------------------------------------------------ */

/* The worker that alone may run it, counted from 1; 0: any. */
static uint16_t pin_for(aw__pool *p, uint32_t asked, const aw_future *f) {
    const aw__worker *here = aw__thread.worker;
    if (asked) return (uint16_t)asked;
    if (p->apart && here && here->pool == p) return (uint16_t)(here->index + 1);
    /* A fiber stays where it begins: let them begin evenly. */
    if (p->apart || f->type->flags & AW__PINNED)
        return (uint16_t)(1 + aw__fetch_add_relaxed(&p->next, 1u) % p->count);
    return 0;
}

aw_future *aw__pool_spawn(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                          const aw_place *place, void *storage, const aw__birth *birth) {
    aw__pool *p = rt->pool;
    aw__task *t = storage ? aw__room_in(rt, storage)
                          : aw__shelf_take(p, aw__birth_size(birth, size));
    if (!t) return aw__spawn_undone(rt, f, -ENOMEM);
    t->next = t->inbox_next = NULL;
    bool asleep = AW__UNLIKELY(birth != NULL) && birth->asleep;
    t->word = asleep ? aw__word_new() & ~(uint64_t)AW__W_NOTIFIED : aw__word_new();
    t->status = AW__RUNNING;
    t->armed = 0;
    t->flags = t->cancelling = t->opened = 0;
    t->fail = 0;
    t->joiner = NULL;
    t->place = (uintptr_t)place;
    t->pin = pin_for(p, worker, f);
    aw__task_set_id(t, aw__fetch_add_relaxed(&rt->outside_ids, (uint64_t)1));
    memcpy(aw__task_frame(t), f, size);
    if (AW__UNLIKELY(birth != NULL)) aw__make_member(birth, t, size);
    aw__pool_keep(p);
    aw__fetch_add_relaxed(&p->live, (uint64_t)1);
    if (!list_add(p, t)) {
        aw_future *failed = aw__spawn_undone(rt, aw__task_frame(t), -ECANCELED);
        count_down(p);
        aw__word_unref(&t->word); /* it stays nobody's: the handle is not given out */
        aw__pool_release(t);
        return failed;
    }
    aw__task_spawned(rt, t);
    aw_future *handle = aw__task_frame(t);
    if (!asleep) aw__pool_schedule(p, t, false);
    return handle;
}

/* ---- End -------------------------------------------------------------------------------------- */

/* Rule 4 of word.h. */
static void wake_joiner(aw__task *t) {
    aw_waker waker = t->joiner->waker, later;
    bool wake_later = aw__wake_or_clone(&waker, &later);
    aw__store_release(&t->joiner, (struct aw_task_join_future *)NULL);
    if (wake_later) aw_waker_wake(later);
}

void aw__pool_complete(aw__pool *p, aw__task *t, aw_poll answer) {
    if (AW_CHECKS && AW__UNLIKELY(t->opened)) aw__check_left_by_task(t);
    if (AW__UNLIKELY(t->place & 1)) aw__locals_release(t);
    int status = answer == AW_READY ? AW__FINISHED : t->fail ? t->fail : -ECANCELED;
    aw__member *member = aw__task_member(t);
    int error = AW__UNLIKELY(member != NULL) ? aw__member_error(t, status) : 0;
    aw__limit_give(&p->rt->tasks);
    aw__task_ended(p->rt, t, status);
    list_remove(p, t);
    aw__store_relaxed(&t->status, status);
    uint64_t old = aw__word_done(&t->word);
    if (!(old & AW__W_HANDLE) && status == AW__FINISHED) aw_future_discard(aw__task_frame(t));
    if (AW__UNLIKELY(member != NULL))
        member->ended(member, status, error);
    else if (old & AW__W_JOINER)
        wake_joiner(t);
    count_down(p);
    aw__pool_release(t);
}

/* ---- Handles ---------------------------------------------------------------------------------- */

void aw__pool_abort(aw__task *t) {
    if (aw__word_abort(&t->word)) aw__pool_schedule(pool_of(t), t, false);
}

void aw__pool_drop(aw__task *t) {
    if (aw__word_drop_handle(&t->word) && aw__load_relaxed(&t->status) == AW__FINISHED &&
        !aw__rt_forked(aw__task_rt(t)))
        aw_future_discard(aw__task_frame(t));
    let_go(t);
}
