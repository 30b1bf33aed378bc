/* SPDX-License-Identifier: MIT
 *
 * What the runtime notices by itself: a task that nobody can wake any more, a deadlock, a cancel that
 * takes long. All on the owner's thread.
 *
 * A task counts the waits that are armed for it; a leaf that clones its waker instead holds a
 * reference. Pending with neither, and not queued, it can never run again. This is certain, except for
 * what cannot be seen from here: a waker that the task keeps in its own frame counts as held by
 * somebody, so such a task is not reported. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/misuse.h"
#include "runtime/inbox.h"
#include "runtime/runtime.h"
#include "workers/pool.h"

/* Of one that was spawned. Reads nothing that changes while it runs. */
static void name_spawned(char *buf, size_t size, const aw__task *t) {
    const aw_future *f = aw__task_frame((aw__task *)(uintptr_t)t);
    const aw_place *place = aw__place_of(t);
    snprintf(buf, size, "task %" PRIu64 " '%s' (spawned at %s:%d)", aw__task_number(t),
             aw__task_name(f), place->file, place->line);
}

void aw__name_task(char *buf, size_t size, const aw__task *t) {
    if (t->flags & AW__MAIN)
        snprintf(buf, size, "the main future");
    else
        name_spawned(buf, size, t);
}

static const aw_future *future_of(const aw_runtime *rt, const aw__task *t) {
    if (t->flags & AW__MAIN) return rt->pool ? aw__main_of(t)->future : rt->main;
    return aw__task_frame((aw__task *)(uintptr_t)t);
}

static bool is_cancelled(const aw_runtime *rt, const aw__task *t) {
    return rt->pool ? aw__load_relaxed(&t->word) & AW__W_CANCEL : t->flags & AW__CANCEL;
}

static void add_task(aw__text *text, const aw_runtime *rt, const aw__task *t) {
    char name[256];
    aw__name_task(name, sizeof name, t);
    aw__text_add(text, "%s%s\n", name, is_cancelled(rt, t) ? ", being cancelled" : "");
    aw__text_chain(text, future_of(rt, t), 1);
}

static int own_references(const aw__task *t) {
    return t->flags & AW__HANDLE ? 2 : 1; /* the runtime's, and the handle's */
}

/* Whether somebody outside holds a waker of it, or has just asked for something. One load: a wake and
 * the drop that follows it are in the same word. */
static bool may_be_woken(const aw__task *t) {
    uint32_t shared = aw__load_acquire(&t->shared);
    return shared & AW__INBOX || t->local + aw__ref_count(shared) > own_references(t);
}

void aw__report_if_lost(aw_runtime *rt, aw__task *t) {
    if (!may_be_woken(t)) aw__report_lost(rt, t);
}

void aw__report_lost(const aw_runtime *rt, const aw__task *t) {
    char name[256], chain[2048];
    aw__text text = {chain, sizeof chain, 0};
    aw__name_task(name, sizeof name, t);
    aw__text_chain(&text, future_of(rt, t), 1);
    aw__text_trim(&text);
    aw__rt_log(
        rt, AW_LOG_PROBLEM, "lost wake-up: %s is pending, but %s: it can never run again\n%s", name,
        t->armed > 0 ? "waits only for what it holds itself" : "nothing keeps its waker", chain);
}

/* ---- Deadlock --------------------------------------------------------------------------------- */

/* The same before a sleep. The references of others are then counted in `shared` alone and WATCH is set,
 * so that the drop of the last one is not silent (rule 3): it may be what proves a deadlock. */
static bool may_be_woken_later(aw__task *t) {
    uint32_t old = aw__load_acquire(&t->shared), new;
    do {
        int32_t others = t->local + aw__ref_count(old) - own_references(t);
        if (old & AW__INBOX) return true;
        if (others <= 0) return false;
        new = AW__WATCH | (uint32_t)(others * AW__REF);
    } while (!aw__cas(&t->shared, &old, new));
    t->local = own_references(t);
    return true;
}

/* Nothing is ready and there is no timer. Proved when nobody outside can end any of the waits that are
 * left: all of them are joins of tasks of this runtime, or nothing at all. The inbox comes last: who gave
 * its reference up may have put something in before. */
bool aw__is_deadlock(aw_runtime *rt) {
    if (rt->outside > 0) return false;
    if (rt->main && may_be_woken_later(&rt->main_task)) return false;
    aw__task *t;
    for (aw__walk w = {.rt = rt}; (t = aw__walk_next(&w));)
        if (may_be_woken_later(t)) return false;
    return aw__load_acquire(&rt->inbox) == NULL;
}

/* With workers: those that wait, and of the others, which are somewhere else in a moment, the names. */
static void add_name(aw__task *t, void *text) {
    char name[256];
    name_spawned(name, sizeof name, t);
    aw__text_add(text, "%s, running\n", name);
}
static void add_waiting(aw__task *t, void *text) {
    add_task(text, aw__task_rt(t), t);
}

static void add_all(aw__text *text, const aw_runtime *rt) {
    if (rt->pool) {
        aw__mains_each_asleep(rt->pool, add_waiting, text);
        aw__pool_each(rt->pool, add_waiting, add_name, text);
        return;
    }
    if (rt->main && !(rt->main_task.flags & AW__DONE)) add_task(text, rt, &rt->main_task);
    const aw__task *t;
    for (aw__walk w = {.rt = rt}; (t = aw__walk_next(&w));)
        add_task(text, rt, t);
    for (t = aw__inbox_first(rt); t; t = t->inbox_next)
        if (aw__load_relaxed(&t->shared) & AW__NEW) add_task(text, rt, t);
}

void aw__report_deadlock(const aw_runtime *rt) {
    char all[3072];
    aw__text text = {all, sizeof all, 0};
    add_all(&text, rt);
    bool cut = text.length >= sizeof all;
    aw__text_trim(&text);
    aw__rt_log(rt, AW_LOG_PROBLEM, "deadlock: nothing can run any more\n%s%s", all,
               cut ? "\n(and more)" : "");
}

/* Tasks that have not ended, by name. */
void aw__report_left(const aw_runtime *rt, const char *words, ...) {
    char all[3072], what[256];
    va_list args;
    va_start(args, words);
    vsnprintf(what, sizeof what, words, args);
    va_end(args);
    aw__text text = {all, sizeof all, 0};
    text.length = (size_t)aw_runtime_describe(rt, all, sizeof all);
    aw__text_trim(&text);
    aw__rt_log(rt, AW_LOG_PROBLEM, "%s\n%s%s", what, all,
               text.length >= sizeof all ? "\n(and more)" : "");
}

void aw__report_sleeps(const aw_runtime *rt, size_t count) {
    if (!count) return;
    aw__rt_log(rt, AW_LOG_PROBLEM, "%zu sleeps of other executors are still set", count);
}

int aw_runtime_describe(const aw_runtime *rt, char *buf, size_t size) {
    aw__text text = {buf, size, 0};
    if (size) buf[0] = 0;
    if (!aw__rt_forked(rt)) add_all(&text, rt);
    return (int)text.length;
}

/* ---- Cancels that take long ------------------------------------------------------------------- */

/* Tasks in which something is being cancelled are looked at every half of cancel_report. Their age is
 * how often they were seen: after the third time the cancel is older than cancel_report for sure. From
 * there to the deadline it has few steps: then every n-th look counts. */
enum { REPORT_AGE = 3, MAX_AGE = 15, STEPS = MAX_AGE - REPORT_AGE - 1 };

static uint64_t half(const aw_runtime *rt) {
    return rt->cancel_report / 2 ? rt->cancel_report / 2 : 1;
}

/* Looks from the report to the deadline. */
static uint64_t looks_left(const aw_runtime *rt) {
    uint64_t looks = rt->cleanup_deadline / half(rt);
    return looks > REPORT_AGE - 1 ? looks - (REPORT_AGE - 1) : 0;
}

static uint64_t looks_a_step(const aw_runtime *rt) {
    return looks_left(rt) <= STEPS ? 1 : (looks_left(rt) - 1) / STEPS + 1;
}

/* One step more than needed: the first one may come at once. */
static unsigned final_age(const aw_runtime *rt) {
    uint64_t n = looks_a_step(rt);
    return REPORT_AGE + 1 + (unsigned)((looks_left(rt) + n - 1) / n);
}

bool aw__count_cancels(aw__task *t, int32_t change, bool ended) {
    int32_t n = (int32_t)t->cancelling + change;
    t->cancelling = n < 0 ? 0 : n > 0xffff ? 0xffff : (uint16_t)n;
    bool counts = !ended && t->cancelling > 0;
    if (counts == !!(t->flags & AW__COUNTED)) return false;
    t->flags = (uint16_t)((t->flags ^ AW__COUNTED) & (AW__AGE - 1));
    return counts;
}

void aw__watch_begin(aw_runtime *rt) {
    aw__watch_again(rt, aw__rt_now(rt));
}

void aw__watch_again(aw_runtime *rt, uint64_t now) {
    aw__store_relaxed(&rt->watch_at, now > AW_FOREVER - half(rt) ? AW_FOREVER : now + half(rt));
}

void aw__reports_add(aw__reports *r, const char *message) {
    size_t size = strlen(message) + 1;
    if (size > sizeof r->text - r->length) {
        r->left_out++;
        return;
    }
    memcpy(r->text + r->length, message, size);
    r->length += size;
}

void aw__reports_log(const aw_runtime *rt, const aw__reports *r) {
    for (const char *m = r->text; m < r->text + r->length; m += strlen(m) + 1)
        aw__rt_log(rt, AW_LOG_PROBLEM, "%s", m);
    if (r->left_out) aw__rt_log(rt, AW_LOG_PROBLEM, "(and %zu more)", r->left_out);
}

bool aw__watch_task(aw_runtime *rt, aw__task *t, aw__reports *reports) {
    if (!(t->flags & AW__COUNTED)) return false;
    unsigned age = t->flags / AW__AGE, final = final_age(rt);
    if (age >= final) return false;
    if (age >= REPORT_AGE && rt->looks % looks_a_step(rt)) return true;
    t->flags = (uint16_t)(t->flags + AW__AGE);
    age++;
    if (age == REPORT_AGE || age == final) {
        char message[2048];
        aw__text text = {message, sizeof message, 0};
        aw__text_add(&text, "a cancel has not ended after %.3f s%s\n",
                     (double)(age == final ? rt->cleanup_deadline : rt->cancel_report) / 1e9,
                     age == final ? ", the deadline for cleaning up" : "");
        add_task(&text, rt, t);
        aw__text_trim(&text);
        aw__reports_add(reports, message);
    }
    return age < final;
}

void aw__watch(aw_runtime *rt, uint64_t now) {
    aw__reports reports;
    reports.length = reports.left_out = 0;
    rt->looks++;
    bool again = rt->main && aw__watch_task(rt, &rt->main_task, &reports);
    aw__task *t;
    for (aw__walk w = {.rt = rt}; (t = aw__walk_next(&w));)
        again |= aw__watch_task(rt, t, &reports);
    aw__reports_log(rt, &reports);
    rt->watch_at = AW_FOREVER;
    if (again) aw__watch_again(rt, now);
}
