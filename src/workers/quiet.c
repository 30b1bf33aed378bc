/* SPDX-License-Identifier: MIT */
#include "workers/quiet.h"

#include "os/park.h"

/* ---- Whether all sleep ------------------------------------------------------------------------ */

static bool workers_parked(aw__pool *p, uint64_t *stamp) {
    aw__lock(&p->idle.lock);
    bool all = aw__idle_parked(aw__load_relaxed(&p->idle.word)) == p->count;
    *stamp = p->idle.parks;
    aw__unlock(&p->idle.lock);
    return all;
}

static bool queues_empty(const aw__pool *p) {
    for (uint32_t i = 0; i < p->count; i++)
        if (aw__pinned_sent(&p->workers[i].pinned)) return false;
    return !aw__pool_anything(p);
}

/* The stamp is never the same again once a worker was awake. */
static bool workers_quiet(aw__pool *p, uint64_t *stamp) {
    return workers_parked(p, stamp) && queues_empty(p);
}

static void unwatch_mains(aw__main *m, const aw__main *end) {
    for (; m != end; m = m->next)
        aw__main_unwatch(m);
}

/* Nobody in block_on goes on until it is unwatched; false: one is awake. */
static bool watch_mains(aw__pool *p) {
    aw__main *m;
    aw__lock(&p->rt->lock);
    for (m = p->mains; m && aw__main_watch(m);)
        m = m->next;
    if (m) unwatch_mains(p->mains, m);
    aw__unlock(&p->rt->lock);
    return !m;
}

/* And nobody has come, or been woken. */
static bool mains_quiet(aw__pool *p) {
    aw__lock(&p->rt->lock);
    const aw__main *m = p->mains;
    while (m && aw__main_is_quiet(m))
        m = m->next;
    aw__unlock(&p->rt->lock);
    return !m;
}

static bool still_quiet(aw__pool *p, uint64_t stamp) {
    uint64_t again;
    return workers_quiet(p, &again) && again == stamp && mains_quiet(p);
}

/* ---- The clock -------------------------------------------------------------------------------- */

/* The worker that has the next timer, and when; NULL: there is none. */
static aw__worker *next_timer(aw__pool *p, bool exact, uint64_t *when) {
    aw__worker *first = NULL;
    *when = AW_FOREVER;
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t next = aw__wheel_next(&p->workers[i].wheel, exact);
        if (next >= *when) continue;
        *when = next;
        first = &p->workers[i];
    }
    return first;
}

/* Not beyond the time at which the monitor wants to look at cancels that last; it goes on from there. */
static void jump(aw__pool *p, aw__worker *w, uint64_t when) {
    uint64_t now = aw__load_relaxed(&p->rt->paused_now), watch = aw__load_relaxed(&p->rt->watch_at);
    uint64_t to = watch < when ? watch : when;
    while (to > now && !aw__cas(&p->rt->paused_now, &now, to))
        ;
    if (watch >= when) aw__worker_unpark(w);
    if (watch <= when) aw__monitor_wake(p);
}

/* ---- Deadlock --------------------------------------------------------------------------------- */

/* Waits that something outside may end. */
static int64_t outside(const aw__pool *p) {
    int64_t n = 0;
    for (uint32_t i = 0; i < p->count; i++)
        n += aw__load_relaxed(&p->workers[i].outside);
    for (const aw__main *m = p->mains; m; m = m->next)
        n += aw__load_seq(&m->outside);
    return n;
}

static bool word_may_be_woken(uint64_t word) {
    uint64_t own = 1 + !!(word & AW__W_HANDLE);
    return word & (AW__W_NOTIFIED | AW__W_RUNNING) || word / AW__W_REF > own;
}

/* If so, who lets go of it will look again. */
static bool task_may_be_woken(aw__task *t) {
    return word_may_be_woken(aw__load_acquire(&t->word)) &&
           word_may_be_woken(aw__word_ask(&t->word));
}

static bool any_may_be_woken(aw__pool *p) {
    bool found = false;
    for (int i = 0; i < AW__SHARDS && !found; i++) {
        aw__lock(&p->shards[i].lock);
        for (aw__room *r = p->shards[i].rooms; r && !found; r = r->next)
            found = task_may_be_woken((aw__task *)(void *)(r + 1));
        aw__unlock(&p->shards[i].lock);
    }
    aw__lock(&p->rt->lock);
    for (const aw__main *m = p->mains; m; m = m->next)
        found |= aw__load_seq(&m->refs) > 1;
    aw__unlock(&p->rt->lock);
    return found;
}

/* Everyone who waits is told; one of them reports. */
static void tell(aw__pool *p) {
    bool first = true;
    aw__lock(&p->rt->lock);
    for (aw__main *m = p->mains; m; m = m->next) {
        if (!aw__main_is_quiet(m)) continue;
        m->reports = first;
        first = false;
        aw__fetch_add(&m->stuck, 1u);
        aw__main_wake(m); /* it goes on when it is unwatched */
    }
    aw__unlock(&p->rt->lock);
    if (!aw__load_acquire(&p->ending)) return;
    aw__store_release(&p->stuck, 1u);
    aw__os_unpark(&p->ended_word);
    if (aw__load_seq(&p->abandoned)) aw__monitor_wake(p);
}

/* ---- Looking ---------------------------------------------------------------------------------- */

/* Whether anybody does: when nobody is in block_on there is time to spawn and to set things up. */
static bool somebody_waits(aw__pool *p, int64_t *waits) {
    aw__lock(&p->rt->lock);
    bool any = p->mains || (aw__load_acquire(&p->ending) && aw__load_seq(&p->live));
    *waits = outside(p);
    aw__unlock(&p->rt->lock);
    return any;
}

static void look(aw__pool *p, bool paused) {
    uint64_t stamp, when;
    int64_t waits;
    if (!workers_quiet(p, &stamp) || !somebody_waits(p, &waits)) return;
    aw__worker *w = next_timer(p, paused, &when);
    if (w) {
        if (paused && still_quiet(p, stamp)) jump(p, w, when);
        return;
    }
    if (waits > 0 || any_may_be_woken(p)) return;
    if (still_quiet(p, stamp)) tell(p);
}

void aw__pool_look(aw__pool *p) {
    int64_t waits;
    if (aw__idle_parked(aw__load_seq(&p->idle.word)) != p->count) return;
    if (aw__load_seq(&p->rt->holds) || aw__load_acquire(&p->stop)) return;
    if (aw__rt_forked(p->rt)) return; /* who is counted there is gone */
    bool paused = aw__load_acquire(&p->rt->paused);
    if (!somebody_waits(p, &waits) || (!paused && waits > 0)) return;
    aw__lock(&p->look_lock);
    if (watch_mains(p)) {
        look(p, paused);
        aw__lock(&p->rt->lock);
        unwatch_mains(p->mains, NULL);
        aw__unlock(&p->rt->lock);
    }
    aw__unlock(&p->look_lock);
}

void aw__pool_unhold(aw__pool *p, uint32_t *count) {
    aw__pool_keep(p);
    aw__fetch_sub_seq(count, 1u);
    aw__pool_look(p);
    aw__pool_unkeep(p);
}
