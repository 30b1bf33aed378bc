/* SPDX-License-Identifier: MIT
 *
 * Counting borrows, and the check when a task or a main future ends: see future/borrow_check.h. */
#include "task/task_borrows.h"

#include <stdio.h>

#include "base/misuse.h"
#include "fiber/fiber_state.h"
#include "task/runtime_state.h"
#include "task/task_name.h"

static void borrow_count(aw__borrow *b, aw_cx *cx) {
    b->task = cx->meter ? aw__current_task() : NULL;
    if (cx->meter && cx->meter->borrows < UINT16_MAX) cx->meter->borrows++;
}

/* The fiber that has the borrow on its stack, among the fibers that this thread runs; or NULL. */
static aw__fiber *borrow_fiber(const aw__borrow *b) {
    if (AW__LIKELY(!aw__fiber_current)) return NULL;
    uintptr_t at = (uintptr_t)aw__side_address(b);
    for (aw__fiber *f = aw__fiber_current; f; f = f->outer)
        if (at >= (uintptr_t)f->stack->low && at < (uintptr_t)f) return f;
    return NULL;
}

void aw__borrow_begin(aw__borrow *b, const aw_future *what, aw_cx *cx) {
    aw__fiber *f = borrow_fiber(b);
    if (f) aw__fetch_add(&f->borrows, 1u);
    b->fiber = f;
    b->what = what;
    b->mark = aw__borrow_mark(b);
    borrow_count(b, cx);
}

void aw__borrow_polled(aw__borrow *b, aw_cx *cx) {
    if (AW__UNLIKELY(cx->meter && b->task != aw__current_task())) borrow_count(b, cx);
}

void aw__borrow_end(aw__borrow *b, aw_cx *cx) {
    if (!b->what) return;
    b->mark = 0;
    b->what = NULL;
    if (b->fiber) aw__fetch_sub(&((aw__fiber *)b->fiber)->borrows, 1u);
    b->fiber = NULL;
    if (cx->meter && cx->meter->borrows && b->task == aw__current_task()) cx->meter->borrows--;
}

/* ---- The check ------------------------------------------------------------------------------- */

static AW__COLD void borrow_misuse(const char *name, const aw__borrow *b) {
    char text[AW__BORROW_TEXT];
    aw__borrow_describe(b, text);
    aw__misuse(
        "%s has ended while something in its frame was open: wait for it, cancel it or close it "
        "first\n%s",
        name, text);
}

/* A generic future has no size in its type: use that of its slab. */
static size_t frame_size(const aw__task *t, const aw_future *f) {
    const aw__slab *s = aw__task_slab(t);
    if (f->type->size) return f->type->size;
    size_t size = s->kind == AW__SLAB_SHARED ? (size_t)s->size * AW__SLAB_STEP + sizeof *s
                                             : s->size;
    return size ? size - sizeof *s - sizeof *t : 0;
}

void aw__borrow_check_main(const aw_future *f, uint32_t borrows) {
    char name[256];
    if (!AW_CHECKS || AW__LIKELY(!borrows)) return;
    const aw__borrow *b = aw__borrow_find(f, f->type->size, f);
    if (!b) return;
    snprintf(name, sizeof name, "the main future '%s'", f->type->name);
    borrow_misuse(name, b);
}

void aw__borrow_check_task(aw__task *t) {
    char name[256];
    if (t->flags & AW__MAIN) {
        aw__borrow_check_main(aw__task_rt(t)->main, t->borrows);
        return;
    }
    const aw_future *f = aw__task_frame(t);
    const aw__borrow *b = aw__borrow_find(f, frame_size(t, f), f);
    if (!b) return;
    aw__name_task(name, sizeof name, t);
    borrow_misuse(name, b);
}
