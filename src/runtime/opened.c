/* SPDX-License-Identifier: MIT
 *
 * Counting what is open, by task and by fiber: see core/opened.h. */
#include "runtime/opened.h"

#include <stdio.h>

#include "core/misuse.h"
#include "fiber/fiber.h"
#include "runtime/runtime.h"

static void count_in(aw__open *o, aw_cx *cx) {
    o->task = cx->meter ? aw__current_task() : NULL;
    if (cx->meter && cx->meter->opened < UINT16_MAX) cx->meter->opened++;
}

/* The fiber on whose stack it lies, among those on whose stacks this thread is. */
static aw__fiber *fiber_of(const aw__open *o) {
    if (AW__LIKELY(!aw__fiber_here)) return NULL;
    uintptr_t at = (uintptr_t)aw__side_place(o);
    for (aw__fiber *f = aw__fiber_here; f; f = f->outer)
        if (at >= (uintptr_t)f->stack->low && at < (uintptr_t)f) return f;
    return NULL;
}

void aw__open_begin(aw__open *o, const aw_future *what, aw_cx *cx) {
    aw__fiber *f = fiber_of(o);
    if (f) aw__fetch_add(&f->opened, 1u);
    o->fiber = f;
    o->what = what;
    o->mark = aw__open_mark(o);
    count_in(o, cx);
}

void aw__open_polled(aw__open *o, aw_cx *cx) {
    if (AW__UNLIKELY(cx->meter && o->task != aw__current_task())) count_in(o, cx);
}

void aw__open_end(aw__open *o, aw_cx *cx) {
    if (!o->what) return;
    o->mark = 0;
    o->what = NULL;
    if (o->fiber) aw__fetch_sub(&((aw__fiber *)o->fiber)->opened, 1u);
    o->fiber = NULL;
    if (cx->meter && cx->meter->opened && o->task == aw__current_task()) cx->meter->opened--;
}

/* ---- Ends ------------------------------------------------------------------------------------- */

static AW__COLD void bad_end(const char *name, const aw__open *o) {
    char text[AW__LEFT_TEXT];
    aw__opened_describe(o, text);
    aw__misuse(
        "%s has ended while something in its frame was open: wait for it, cancel it or close it "
        "first\n%s",
        name, text);
}

/* The size of a generic future is that of its room. */
static size_t frame_size(const aw__task *t, const aw_future *f) {
    const aw__room *r = aw__task_room(t);
    if (f->type->size) return f->type->size;
    size_t size = r->kind == AW__ROOM_SLAB ? (size_t)r->size * AW__ROOM_STEP + sizeof *r : r->size;
    return size ? size - sizeof *r - sizeof *t : 0;
}

void aw__check_left_by_main(const aw_future *f, uint32_t opened) {
    char name[256];
    if (!AW_CHECKS || AW__LIKELY(!opened)) return;
    const aw__open *o = aw__opened_find(f, f->type->size, f);
    if (!o) return;
    snprintf(name, sizeof name, "the main future '%s'", f->type->name);
    bad_end(name, o);
}

void aw__check_left_by_task(aw__task *t) {
    char name[256];
    if (t->flags & AW__MAIN) {
        aw__check_left_by_main(aw__task_rt(t)->main, t->opened);
        return;
    }
    const aw_future *f = aw__task_frame(t);
    const aw__open *o = aw__opened_find(f, frame_size(t, f), f);
    if (!o) return;
    aw__name_task(name, sizeof name, t);
    bad_end(name, o);
}
