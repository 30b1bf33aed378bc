/* SPDX-License-Identifier: MIT
 *
 * What the runtime detects by itself: a task that nothing can wake any more (lost wake-up), a
 * deadlock, a cancel that takes long. With workers, sched/multi/quiescence.c and
 * sched/multi/monitor.c detect these; the reports are built here too.
 *
 * A task counts the waits that are armed for it; a leaf that clones the waker holds a reference
 * instead. A task that is pending with neither, and is not queued, can never run again. Nor can a
 * task that waits only for what it holds itself (future/self_wait.h). There are no false reports,
 * but a lost task can go unnoticed: a waker in the task's own frame counts as a reference. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "future/chain.h"
#include "future/self_wait.h"
#include "sched/multi/pool.h"
#include "sched/multi/pool_task.h"
#include "sched/report.h"
#include "task/inbox.h"
#include "task/task_name.h"

static const aw_future *report_future(const aw_runtime *rt, const aw__task *t) {
    if (t->flags & AW__MAIN) return rt->pool ? aw__block_on_of(t)->future : rt->main;
    return aw__task_frame((aw__task *)(uintptr_t)t);
}

static bool is_cancelled(const aw_runtime *rt, const aw__task *t) {
    return rt->pool ? aw__load_relaxed(&t->word) & AW__W_CANCEL : t->flags & AW__CANCEL;
}

static void add_task(aw__text *text, const aw_runtime *rt, const aw__task *t) {
    char name[256];
    aw__name_task(name, sizeof name, t);
    aw__text_add(text, "%s%s\n", name, is_cancelled(rt, t) ? ", being cancelled" : "");
    aw__text_chain(text, report_future(rt, t), 1);
}

static int known_references(const aw__task *t) {
    return t->flags & AW__HANDLE ? 2 : 1; /* of the runtime, and of the handle */
}

/* Whether a waker of the task exists, or a request is pending. One load: a wake and the drop after
 * it are in the same word. */
static bool may_be_woken(const aw__task *t) {
    uint32_t shared = aw__load_acquire(&t->shared);
    return shared & AW__INBOX || t->local + aw__ref_count(shared) > known_references(t);
}

void aw__report_if_lost(aw_runtime *rt, aw__task *t) {
    if (!may_be_woken(t)) aw__report_lost(rt, t);
}

/* The number of waits below `f` that are for what the task holds. It is too low if a future does
 * not name its children, or has too many: then the task is not reported. */
static int32_t count_self_waits(const aw_future *f, const aw_runtime *rt, uint64_t task,
                                int depth) {
    enum { MAX_DEPTH = 64, MAX_CHILDREN = 32 };
    const aw_future_type *type = f->type;
    if (type->flags & AW__SELF_WAIT)
        return ((const aw__self_wait *)type->extra)->is_self_wait(f, rt, task) ? 1 : 0;
    if (!type->child || !aw_future_started(f) || depth == MAX_DEPTH) return 0;
    int32_t count = 0;
    const aw_future *child;
    for (size_t i = 0; i < MAX_CHILDREN && (child = type->child(f, i)); i++)
        count += count_self_waits(child, rt, task, depth + 1);
    return count;
}

/* A task with armed waits is lost only if all of them are for what it holds itself. */
static bool report_is_lost(const aw_runtime *rt, const aw__task *t) {
    return t->armed <= 0 ||
           t->armed <= count_self_waits(report_future(rt, t), rt, aw__task_number(t), 0);
}

void aw__report_lost(const aw_runtime *rt, const aw__task *t) {
    if (!report_is_lost(rt, t)) return;
    char name[256], chain[2048];
    aw__text text = {chain, sizeof chain, 0};
    aw__name_task(name, sizeof name, t);
    aw__text_chain(&text, report_future(rt, t), 1);
    aw__text_trim(&text);
    aw__rt_log(
        rt, AW_LOG_PROBLEM, "lost wake-up: %s is pending, but %s: it can never run again\n%s", name,
        t->armed > 0 ? "waits only for what it holds itself" : "nothing keeps its waker", chain);
}

/* ---- Deadlock -------------------------------------------------------------------------------- */

/* As may_be_woken, before a sleep. If wakers exist, their references move to `shared` and WATCH is
 * set (rule 3 of task_header.h): the drop of the last one must wake the owner, because it may
 * complete a deadlock. */
static bool watch_wakers(aw__task *t) {
    uint32_t old = aw__load_acquire(&t->shared), new;
    do {
        int32_t wakers = t->local + aw__ref_count(old) - known_references(t);
        if (old & AW__INBOX) return true;
        if (wakers <= 0) return false;
        new = AW__WATCH | (uint32_t)(wakers * AW__REF);
    } while (!aw__cas(&t->shared, &old, new));
    t->local = known_references(t);
    return true;
}

/* Called when nothing is ready and there is no timer. It is a deadlock if nothing outside can end
 * any of the waits: all of them are for tasks of this runtime, or there are none. Check the inbox
 * last: a thread may have pushed a request before it dropped its reference. */
bool aw__is_deadlock(aw_runtime *rt) {
    if (rt->outside > 0) return false;
    if (rt->main && watch_wakers(&rt->main_task)) return false;
    aw__task *t;
    for (aw__task_walk w = {.rt = rt}; (t = aw__task_walk_next(&w));)
        if (watch_wakers(t)) return false;
    return aw__load_acquire(&rt->inbox) == NULL;
}

/* With workers: a running task is only named, because its futures are changing. */
static void add_name(aw__task *t, void *text) {
    char name[256];
    aw__name_spawned(name, sizeof name, t);
    aw__text_add(text, "%s, running\n", name);
}
static void add_waiting(aw__task *t, void *text) {
    add_task(text, aw__task_rt(t), t);
}

static void report_add_all(aw__text *text, const aw_runtime *rt) {
    if (rt->pool) {
        aw__block_on_each_asleep(rt->pool, add_waiting, text);
        aw__pool_each(rt->pool, add_waiting, add_name, text);
        return;
    }
    if (rt->main && !(rt->main_task.flags & AW__DONE)) add_task(text, rt, &rt->main_task);
    const aw__task *t;
    for (aw__task_walk w = {.rt = rt}; (t = aw__task_walk_next(&w));)
        add_task(text, rt, t);
    for (t = aw__inbox_first(rt); t; t = t->inbox_next)
        if (aw__load_relaxed(&t->shared) & AW__NEW) add_task(text, rt, t);
}

void aw__report_deadlock(const aw_runtime *rt) {
    char all[3072];
    aw__text text = {all, sizeof all, 0};
    report_add_all(&text, rt);
    bool cut = text.length >= sizeof all;
    aw__text_trim(&text);
    aw__rt_log(rt, AW_LOG_PROBLEM, "deadlock: nothing can run any more\n%s%s", all,
               cut ? "\n(and more)" : "");
}

/* Log a message, and all tasks that have not ended. */
void aw__report_remaining(const aw_runtime *rt, const char *format, ...) {
    char all[3072], what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    aw__text text = {all, sizeof all, 0};
    text.length = (size_t)aw_runtime_describe(rt, all, sizeof all);
    aw__text_trim(&text);
    aw__rt_log(rt, AW_LOG_PROBLEM, "%s\n%s%s", what, all,
               text.length >= sizeof all ? "\n(and more)" : "");
}

void aw__report_sleeps(const aw_runtime *rt, size_t count) {
    if (!count) return;
    aw__rt_log(rt, AW_LOG_INFO,
               "%zu sleeps of outside threads were pending when the runtime ended: -ESHUTDOWN",
               count);
}

void aw__report_shutdown(aw_runtime *rt, size_t remaining, uint64_t limit) {
    if (!remaining) aw__report_sleeps(rt, aw__rt_end_sleeps(rt));
    if (remaining && limit && limit != AW_FOREVER)
        aw__report_remaining(rt, "%zu tasks have not ended %.3f s after they were cancelled",
                             remaining, (double)limit / 1e9);
}

int aw_runtime_describe(const aw_runtime *rt, char *buf, size_t size) {
    aw__text text = {buf, size, 0};
    if (size) buf[0] = 0;
    if (!aw__rt_forked(rt)) report_add_all(&text, rt);
    return (int)text.length;
}

/* ---- Cancels that take long ------------------------------------------------------------------ */

/* Tasks with a cancel in progress are checked every cancel_report / 2. The age of a task counts the
 * checks that have seen it. At the third, the cancel has certainly lasted longer than
 * cancel_report. An age has only four bits: from then on until cleanup_deadline only every n-th
 * check counts. */
enum { REPORT_AGE = 3, MAX_AGE = 15, AGE_STEPS = MAX_AGE - REPORT_AGE - 1 };

static uint64_t watch_period(const aw_runtime *rt) {
    return rt->cancel_report / 2 ? rt->cancel_report / 2 : 1;
}

/* The number of checks from the report to cleanup_deadline. */
static uint64_t checks_after_report(const aw_runtime *rt) {
    uint64_t checks = rt->cleanup_deadline / watch_period(rt);
    return checks > REPORT_AGE - 1 ? checks - (REPORT_AGE - 1) : 0;
}

static uint64_t checks_per_step(const aw_runtime *rt) {
    return checks_after_report(rt) <= AGE_STEPS ? 1 : (checks_after_report(rt) - 1) / AGE_STEPS + 1;
}

/* One step more than needed: the first step may come at once. */
static unsigned final_age(const aw_runtime *rt) {
    uint64_t n = checks_per_step(rt);
    return REPORT_AGE + 1 + (unsigned)((checks_after_report(rt) + n - 1) / n);
}

bool aw__count_cancels(aw__task *t, int32_t change, bool ended) {
    int32_t n = (int32_t)t->cancelling + change;
    t->cancelling = n < 0 ? 0 : n > 0xffff ? 0xffff : (uint16_t)n;
    bool counts = !ended && t->cancelling > 0;
    if (counts == !!(t->flags & AW__COUNTED)) return false;
    t->flags = (uint16_t)((t->flags ^ AW__COUNTED) & (AW__AGE - 1));
    return counts;
}

void aw__cancel_watch_begin(aw_runtime *rt) {
    aw__cancel_watch_again(rt, aw__rt_now(rt));
}

void aw__cancel_watch_again(aw_runtime *rt, uint64_t now) {
    aw__store_relaxed(&rt->watch_at,
                      now > AW_FOREVER - watch_period(rt) ? AW_FOREVER : now + watch_period(rt));
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

bool aw__cancel_watch_task(aw_runtime *rt, aw__task *t, aw__reports *reports) {
    if (!(t->flags & AW__COUNTED)) return false;
    unsigned age = t->flags / AW__AGE, final = final_age(rt);
    if (age >= final) return false;
    if (age >= REPORT_AGE && rt->looks % checks_per_step(rt)) return true;
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

void aw__cancel_watch(aw_runtime *rt, uint64_t now) {
    aw__reports reports;
    reports.length = reports.left_out = 0;
    rt->looks++;
    bool again = rt->main && aw__cancel_watch_task(rt, &rt->main_task, &reports);
    aw__task *t;
    for (aw__task_walk w = {.rt = rt}; (t = aw__task_walk_next(&w));)
        again |= aw__cancel_watch_task(rt, t, &reports);
    aw__reports_log(rt, &reports);
    rt->watch_at = AW_FOREVER;
    if (again) aw__cancel_watch_again(rt, now);
}
