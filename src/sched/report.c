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
#include "sched/report.h"
#include "task/task_name.h"

static void add_task(aw__text *text, const aw__task_view *v) {
    char name[256];
    aw__name_task(name, sizeof name, v->task);
    aw__text_add(text, "%s%s\n", name, v->cancelled ? ", being cancelled" : "");
    aw__text_chain(text, v->future, 1);
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
static bool report_is_lost(const aw_runtime *rt, const aw__task *t, const aw_future *f) {
    return t->armed <= 0 || t->armed <= count_self_waits(f, rt, aw__task_number(t), 0);
}

void aw__report_lost(const aw_runtime *rt, const aw__task *t, const aw_future *f) {
    if (!report_is_lost(rt, t, f)) return;
    char name[256], chain[2048];
    aw__text text = {chain, sizeof chain, 0};
    aw__name_task(name, sizeof name, t);
    aw__text_chain(&text, f, 1);
    aw__text_trim(&text);
    aw__rt_log(
        rt, AW_LOG_PROBLEM, "lost wake-up: %s is pending, but %s: it can never run again\n%s", name,
        t->armed > 0 ? "waits only for what it holds itself" : "nothing keeps its waker", chain);
}

/* ---- Deadlock -------------------------------------------------------------------------------- */

/* A running task is only named, because its futures are changing. */
static void add_view(const aw__task_view *v, void *text) {
    char name[256];
    if (v->future) {
        add_task(text, v);
        return;
    }
    aw__name_spawned(name, sizeof name, v->task);
    aw__text_add(text, "%s, running\n", name);
}

static void report_add_all(aw__text *text, const aw_runtime *rt) {
    rt->base.sched->each_task((aw_runtime *)(uintptr_t)rt, add_view, text);
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

/* Messages collected under locks, and logged after: the log callback is user code. */
struct reports {
    size_t length, left_out;
    char text[16384]; /* zero-terminated strings, one after the other */
};

static void reports_add(struct reports *r, const char *message) {
    size_t size = strlen(message) + 1;
    if (size > sizeof r->text - r->length) {
        r->left_out++;
        return;
    }
    memcpy(r->text + r->length, message, size);
    r->length += size;
}

static void reports_log(const aw_runtime *rt, const struct reports *r) {
    for (const char *m = r->text; m < r->text + r->length; m += strlen(m) + 1)
        aw__rt_log(rt, AW_LOG_PROBLEM, "%s", m);
    if (r->left_out) aw__rt_log(rt, AW_LOG_PROBLEM, "(and %zu more)", r->left_out);
}

/* True: the task must be watched again. */
static bool cancel_watch_task(aw_runtime *rt, const aw__task_view *v, struct reports *reports) {
    aw__task *t = v->task;
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
        add_task(&text, v);
        aw__text_trim(&text);
        reports_add(reports, message);
    }
    return age < final;
}

struct cancel_watch {
    aw_runtime *rt;
    bool again;
    uint32_t seen; /* tasks with AW__COUNTED */
    struct reports reports;
};

static void watch_cancel(const aw__task_view *v, void *data) {
    struct cancel_watch *w = data;
    if (!v->future || !(v->task->flags & AW__COUNTED)) return;
    w->seen++;
    if (cancel_watch_task(w->rt, v, &w->reports)) w->again = true;
}

/* `watch_at` is unchanged until all tasks are checked, so that a paused clock does not pass it
 * (aw__clock_jump). With workers, a task that was running, or was counted only now, is checked next
 * time: it increments `cancelling` and then loads `watch_at`; this function stores AW_FOREVER and
 * then loads `cancelling` (all seq_cst), so one of them sees the other. */
void aw__cancel_watch(aw_runtime *rt, uint64_t now) {
    struct cancel_watch w;
    w.rt = rt;
    w.again = false;
    w.seen = 0;
    w.reports.length = w.reports.left_out = 0;
    rt->looks++;
    rt->base.sched->each_task(rt, watch_cancel, &w);
    reports_log(rt, &w.reports);
    if (!w.again) aw__store_seq(&rt->watch_at, AW_FOREVER);
    if (w.again || w.seen < aw__load_seq(&rt->cancelling)) aw__cancel_watch_again(rt, now);
}
