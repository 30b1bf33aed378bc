/* SPDX-License-Identifier: MIT
 *
 * Every allocation of a runtime with workers fails in turn: once, and then with all after it. Each
 * run of a program that spawns, joins, and uses task-local values, boxes, sets and groups ends with
 * clean errors, and leaves nothing behind. */
#include "support/workers.h"

/* ---- An allocator that fails ----------------------------------------------------------------- */

typedef struct failing {
    memory memory;
    aw_allocator allocator;
    int64_t calls, fail_at; /* atomic */
    bool from_there_on;
    uint32_t failures;
} failing;

static void *failing_alloc(void *data, size_t size) {
    failing *f = data;
    int64_t call = __atomic_fetch_add(&f->calls, 1, __ATOMIC_RELAXED);
    if (call == f->fail_at || (f->from_there_on && call > f->fail_at)) {
        ADD(f->failures, 1);
        return NULL;
    }
    return memory_alloc(&f->memory, size);
}
static void failing_release(void *data, void *at, size_t size) {
    memory_release(&((failing *)data)->memory, at, size);
}

static void failing_init(failing *f, int64_t at, bool from_there_on) {
    *f = (failing){.fail_at = at, .from_there_on = from_there_on};
    memory_init(&f->memory);
    f->allocator = (aw_allocator){failing_alloc, failing_release, f};
}

/* ---- The program ----------------------------------------------------------------------------- */

typedef struct book {
    uint32_t made, released; /* what tasks own from their spawn on */
} book;

AW_ASYNC(int, owner, book *book; int yield_count; struct rounds pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, rounds(self->yield_count));
    AW_RETURN(self->yield_count);
    AW_FINALLY;
    ADD(self->book->released, 1);
    AW_END;
}

static struct owner new_owner(book *b, int yield_count) {
    ADD(b->made, 1);
    return AW_CALL(owner, .book = b, .yield_count = yield_count);
}

static aw_local key;
static void release_value(void *value) {
    ADD(((book *)value)->released, 1);
}

static void note(int error) {
    CHECK(error == 0 || error == -ENOMEM);
}

AW_ASYNC(int, program, book *book; int i; struct owner * tasks[4]; struct owner array[40];
         aw_set set; aw_box box; aw_all all; aw_task_join_future join; aw_set_next_future next;
         aw_set_clear_future clear; bool cleared;) {
    AW_BEGIN;
    ADD(self->book->made, 1);
    if (aw_local_set(&key, self->book, release_value)) ADD(self->book->released, 1);
    for (int i = 0; i < 4; i++) {
        self->tasks[i] = aw_spawn(new_owner(self->book, i));
        note(aw_task_error(self->tasks[i]));
    }
    aw_task_abort(self->tasks[2]);
    for (self->i = 0; self->i < 3; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        if (self->join.out != -ECANCELED) note(self->join.out);
        aw_task_drop(self->tasks[self->i]);
    }
    aw_task_drop(self->tasks[3]);
    AW_AWAIT(self->box, aw_box_new(new_owner(self->book, 2)));
    if (self->box.out < 0)
        note((int)self->box.out);
    else
        CHECK_EQ(aw_box_take(struct owner, &self->box), 2);
    for (int i = 0; i < 40; i++)
        self->array[i] = new_owner(self->book, i % 3);
    AW_AWAIT(self->all, aw_join_all(self->array, 40)); /* does without the memory */
    CHECK_EQ(self->all.out, 0);
    aw_set_init(&self->set, sizeof(struct owner));
    for (int i = 0; i < 10; i++)
        note(aw_set_push(&self->set, new_owner(self->book, i % 3)));
    for (self->i = 0; self->i < 5 && self->set.count; self->i++)
        AW_AWAIT(self->next, aw_set_next(&self->set));
    AW_AWAIT(self->clear, aw_set_clear(&self->set));
    aw_set_free(&self->set);
    AW_RETURN(0);
    AW_END;
}

/* True: an allocation failed. */
static bool run_program(uint32_t workers, int64_t at, bool from_there_on) {
    failing f;
    book b = {0};
    aw_runtime *rt = NULL;
    aw_runtime_options o = workers_options(workers, NULL, NULL);
    failing_init(&f, at, from_there_on);
    o.allocator = &f.allocator;
    int error = aw_runtime_new(&rt, &o);
    note(error);
    if (error == 0) {
        struct program *h = aw_spawn_on(rt, AW_CALL(program, .book = &b));
        note(aw_task_error(h));
        int status = JOIN_STATUS(rt, h);
        note(status);
        aw_task_drop(h);
        CHECK_EQ(aw_block_on(rt, AW_CALL(program, .book = &b)), 0);
        aw_runtime_free(rt);
    } else {
        CHECK_EQ(rt, NULL);
    }
    CHECK_EQ(b.made, b.released);
    CHECK_EQ(memory_in_use(&f.memory), 0);
    return f.failures > 0;
}

static void fail_each(uint32_t workers, bool from_there_on) {
    int64_t at = 0;
    while (run_program(workers, at, from_there_on))
        at++;
    CHECK_GT(at, 10); /* the runtime, its workers, tasks, values, a box, wakers, a set */
}

ON_WORKERS(each_allocation_fails_once) {
    fail_each(workers, false);
}
ON_WORKERS(each_allocation_fails_and_all_that_follow) {
    fail_each(workers, true);
}
