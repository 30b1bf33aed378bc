/* SPDX-License-Identifier: MIT
 *
 * A join set yields its tasks in the order in which they end. */
#include "support/scopes.h"

/* A set of three tasks that wait; `next` is polled directly. */
struct scene {
    aw_runtime *rt;
    memory memory;
    aw_flag flag;
    struct kid kids[3];
    struct child *tasks[3], *task;
    aw_join_set set;
    aw_join_set_next_future next;
};
static void begin(struct scene *t, uint32_t workers) {
    t->rt = new_runtime(workers, &t->memory, NULL);
    t->flag = (aw_flag){0};
    t->set = (aw_join_set)AW_JOIN_SET_INIT;
    t->task = NULL;
    for (int i = 0; i < 3; i++) {
        t->kids[i] = (struct kid)KID;
        t->kids[i].result = 10 + i;
        struct child child = AW_CALL(child, .kid = &t->kids[i]);
        t->tasks[i] = aw_join_set_spawn_on(&t->set, t->rt, child);
        CHECK_EQ(aw_task_error(t->tasks[i]), 0);
    }
    run_a_while(t->rt);
    CHECK_EQ(aw_join_set_count(&t->set), 3);
    t->next = aw_join_set_next(&t->set, &t->task);
}
static void open_gate(struct scene *t, int i) {
    gate_open(&t->kids[i].gate);
    run_a_while(t->rt);
}
static void empty(struct scene *t) {
    CHECK_EQ(aw_block_on(t->rt, aw_join_set_shutdown(&t->set)), 0);
    CHECK_EQ(aw_join_set_count(&t->set), 0);
}
static void end(struct scene *t) {
    check_kids(t->kids, 3);
    workers_end(t->rt, &t->memory);
}

/* ---- In the order of their ends --------------------------------------------------------------- */

ON_BOTH(tasks_are_yielded_in_the_order_of_their_ends) {
    struct scene t;
    static const int order[] = {1, 2, 0};
    begin(&t, workers);
    for (int i = 0; i < 3; i++)
        open_gate(&t, order[i]);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_block_on(t.rt, aw_join_set_next(&t.set, &t.task)), 0);
        CHECK_EQ(t.task, t.tasks[order[i]]);
        CHECK_EQ(aw_task_take(t.task), 10 + order[i]);
        CHECK_EQ(t.kids[order[i]].discards, 0);
    }
    CHECK_EQ(aw_block_on(t.rt, aw_join_set_next(&t.set, &t.task)), -ECHILD);
    CHECK(!t.task);
    end(&t);
}

ON_BOTH(a_waiter_is_woken_by_the_next_end) {
    struct scene t;
    begin(&t, workers);
    CHECK_EQ(POLL(&t.next, &t.flag), AW_PENDING);
    CHECK(!aw_flag_take(&t.flag));
    open_gate(&t, 2);
    CHECK(aw_flag_take(&t.flag));
    CHECK_EQ(POLL(&t.next, &t.flag), AW_READY);
    CHECK_EQ(t.next.out, 0);
    CHECK_EQ(t.task, t.tasks[2]);
    CHECK_EQ(aw_join_set_count(&t.set), 2);
    aw_task_drop(t.task);
    CHECK_EQ(t.kids[2].discards, 0); /* it counts as taken */
    empty(&t);
    end(&t);
}

ON_BOTH(a_task_that_failed_or_was_aborted_says_so) {
    struct scene t;
    begin(&t, workers);
    t.kids[0].fails = true;
    t.kids[0].result = -EPROTO;
    open_gate(&t, 0);
    CHECK_EQ(aw_join_set_try_next(&t.set, &t.task), -EPROTO);
    CHECK_EQ(t.task, t.tasks[0]);
    aw_task_drop(t.task);
    aw_task_abort(t.tasks[1]);
    run_a_while(t.rt);
    CHECK_EQ(aw_join_set_try_next(&t.set, &t.task), -ECANCELED);
    CHECK_EQ(t.task, t.tasks[1]);
    aw_task_drop(t.task);
    CHECK_EQ(aw_join_set_try_next(&t.set, &t.task), -EAGAIN);
    CHECK(!t.task);
    empty(&t);
    CHECK_EQ(aw_join_set_try_next(&t.set, &t.task), -ECHILD);
    CHECK(!t.task);
    end(&t);
}

ON_BOTH(several_may_wait_and_the_last_finds_it_empty) {
    struct scene t;
    struct child *tasks[4];
    aw_join_set_next_future next[4];
    aw_flag flags[4] = {{0}};
    begin(&t, workers);
    for (int i = 0; i < 4; i++) {
        next[i] = aw_join_set_next(&t.set, &tasks[i]);
        CHECK_EQ(POLL(&next[i], &flags[i]), AW_PENDING);
    }
    for (int i = 0; i < 3; i++) {
        open_gate(&t, i);
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&next[i], &flags[i]), AW_READY);
        CHECK_EQ(aw_task_take(tasks[i]), 10 + i);
    }
    CHECK(aw_flag_take(&flags[3]));
    CHECK_EQ(POLL(&next[3], &flags[3]), AW_READY);
    CHECK_EQ(next[3].out, -ECHILD);
    CHECK(!tasks[3]);
    end(&t);
}

/* ---- Cancelled at every point ----------------------------------------------------------------- */

ON_BOTH(a_next_that_never_began_is_gone_at_once) {
    struct scene t;
    begin(&t, workers);
    open_gate(&t, 0);
    CHECK_EQ(CANCEL(&t.next, &t.flag), AW_CANCELLED);
    CHECK_EQ(aw_join_set_count(&t.set), 3);
    empty(&t);
    end(&t);
}

ON_BOTH(a_next_that_is_cancelled_takes_nothing) {
    struct scene t;
    begin(&t, workers);
    CHECK_EQ(POLL(&t.next, &t.flag), AW_PENDING);
    CHECK_EQ(CANCEL(&t.next, &t.flag), AW_CANCELLED);
    open_gate(&t, 1);
    CHECK(!aw_flag_take(&t.flag));
    CHECK_EQ(aw_join_set_try_next(&t.set, &t.task), 0);
    CHECK_EQ(aw_task_take(t.task), 11);
    empty(&t);
    end(&t);
}

ON_BOTH(a_task_of_a_next_that_is_cancelled_goes_back_to_the_front) {
    struct scene t;
    begin(&t, workers);
    CHECK_EQ(POLL(&t.next, &t.flag), AW_PENDING);
    open_gate(&t, 1);
    open_gate(&t, 0);
    CHECK_EQ(aw_join_set_count(&t.set), 2);
    CHECK_EQ(CANCEL(&t.next, &t.flag), AW_READY);
    aw_future_discard(&t.next.future);
    CHECK_EQ(aw_join_set_count(&t.set), 3);
    for (int i = 1; i >= 0; i--) {
        CHECK_EQ(aw_join_set_try_next(&t.set, &t.task), 0);
        CHECK_EQ(aw_task_take(t.task), 10 + i);
    }
    empty(&t);
    end(&t);
}

ON_BOTH(a_task_that_is_put_back_goes_to_the_next_waiter) {
    struct scene t;
    struct child *task;
    aw_flag other = {0};
    begin(&t, workers);
    aw_join_set_next_future second = aw_join_set_next(&t.set, &task);
    CHECK_EQ(POLL(&t.next, &t.flag), AW_PENDING);
    CHECK_EQ(POLL(&second, &other), AW_PENDING);
    open_gate(&t, 1);
    CHECK_EQ(CANCEL(&t.next, &t.flag), AW_READY);
    CHECK(!aw_flag_take(&other));
    aw_future_discard(&t.next.future);
    CHECK(aw_flag_take(&other));
    CHECK_EQ(POLL(&second, &other), AW_READY);
    CHECK_EQ(aw_task_take(task), 11);
    empty(&t);
    end(&t);
}

ON_BOTH(a_shutdown_waits_for_all_and_is_not_cut_short) {
    struct scene t;
    begin(&t, workers);
    aw_join_set_shutdown_future never = aw_join_set_shutdown(&t.set);
    CHECK_EQ(CANCEL(&never, &t.flag), AW_CANCELLED);
    open_gate(&t, 0);
    t.kids[1].gate.wins = true;
    t.kids[2].gate.stays = 3;
    aw_join_set_shutdown_future f = aw_join_set_shutdown(&t.set);
    aw_poll r = POLL(&f, &t.flag);
    for (; r == AW_PENDING; r = CANCEL(&f, &t.flag))
        run_a_while(t.rt);
    CHECK_EQ(r, AW_READY);
    CHECK_EQ(f.out, 0);
    CHECK_EQ(aw_join_set_count(&t.set), 0);
    run_a_while(t.rt); /* outputs that were dropped outside are discarded by the runtime */
    CHECK_EQ(t.kids[0].discards, 1);
    CHECK_EQ(t.kids[1].discards, 1);
    CHECK_EQ(t.kids[2].discards, 0);
    end(&t);
}

/* ---- All of them ------------------------------------------------------------------------------ */

ON_BOTH(tasks_that_are_aborted_are_still_yielded) {
    struct scene t;
    begin(&t, workers);
    aw_join_set_abort_all(&t.set);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_block_on(t.rt, aw_join_set_next(&t.set, &t.task)), -ECANCELED);
        aw_task_drop(t.task);
    }
    CHECK_EQ(aw_join_set_count(&t.set), 0);
    end(&t);
}

ON_BOTH(tasks_that_are_detached_go_on_by_themselves) {
    struct scene t;
    begin(&t, workers);
    open_gate(&t, 0);
    CHECK_EQ(POLL(&t.next, &t.flag), AW_READY);
    aw_future_discard(&t.next.future);
    t.next = aw_join_set_next(&t.set, &t.task);
    aw_join_set_detach_all(&t.set);
    CHECK_EQ(aw_join_set_count(&t.set), 0);
    run_a_while(t.rt);
    CHECK_EQ(t.kids[0].discards, 1);
    memset(&t.set, 0xff, sizeof t.set); /* it is no longer used */
    open_gate(&t, 1);
    open_gate(&t, 2);
    CHECK_EQ(t.kids[1].discards + t.kids[2].discards, 2);
    end(&t);
}

ON_BOTH(a_waiter_finds_the_set_empty_when_all_are_detached) {
    struct scene t;
    begin(&t, workers);
    CHECK_EQ(POLL(&t.next, &t.flag), AW_PENDING);
    aw_join_set_detach_all(&t.set);
    CHECK(aw_flag_take(&t.flag));
    CHECK_EQ(POLL(&t.next, &t.flag), AW_READY);
    CHECK_EQ(t.next.out, -ECHILD);
    CHECK(!t.task);
    workers_end(t.rt, &t.memory);
    check_kids(t.kids, 3);
}

ON_BOTH(a_runtime_that_ends_leaves_its_tasks_in_the_set_as_cancelled) {
    struct scene t;
    begin(&t, workers);
    aw_runtime_free(t.rt);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_join_set_try_next(&t.set, &t.task), -ECANCELED);
        aw_task_drop(t.task);
    }
    CHECK_EQ(aw_join_set_count(&t.set), 0);
    CHECK_EQ(memory_in_use(&t.memory), 0);
    check_kids(t.kids, 3);
}

/* ---- Spawns that fail, misuse, descriptions --------------------------------------------------- */

ON_BOTH(a_spawn_that_fails_is_not_in_the_set) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    aw_join_set set = AW_JOIN_SET_INIT;
    struct kid kid = KID;
    STORE(m.refuse, 1);
    struct child *task = aw_join_set_spawn_on(&set, rt, AW_CALL(child, .kid = &kid));
    STORE(m.refuse, 0);
    CHECK_EQ(aw_task_error(task), -ENOMEM);
    CHECK_EQ(kid.unstarted, 1);
    CHECK_EQ(aw_join_set_count(&set), 0);
    CHECK_EQ(aw_block_on(rt, aw_join_set_next(&set, &task)), -ECHILD);
    workers_end(rt, &m);
}

ON_BOTH(its_tasks_are_listed_by_name) {
    struct scene t;
    char text[1024];
    begin(&t, workers);
    CHECK_EQ(POLL(&t.next, &t.flag), AW_PENDING);
    aw_future_describe(&t.next.future, text, sizeof text);
    CHECK_CONTAINS(text, "join_set_next: 3 tasks: task ");
    CHECK_CONTAINS(text, "'child'");
    CHECK_EQ(CANCEL(&t.next, &t.flag), AW_CANCELLED);
    empty(&t);
    end(&t);
}

static void join_a_member(void) {
    struct scene t;
    begin(&t, 0);
    aw_block_on(t.rt, aw_task_join(t.tasks[0]));
}
TEST(a_task_of_a_set_is_not_joined_by_others) {
    ON_THIS_THREAD("a death test forks");
    DIES(join_a_member(), "two joins wait for task");
}

/* ---- In functions and fibers ------------------------------------------------------------------ */

AW_ASYNC(int, square, int n;) {
    AW_BEGIN;
    AW_YIELD;
    AW_RETURN(self->n * self->n);
    AW_END;
}
AW_FIBER(int, square_on_a_stack, int n;) {
    return aw_fiber_yield() ? -1 : self->n * self->n;
}

AW_ASYNC(int, squares, aw_join_set set; struct square * task; int sum; aw_join_set_next_future next;
         aw_join_set_shutdown_future end;) {
    AW_BEGIN;
    for (int i = 1; i <= 20; i++)
        CHECK_EQ(aw_task_error(aw_join_set_spawn(&self->set, AW_CALL(square, .n = i))), 0);
    for (;;) {
        AW_AWAIT(self->next, aw_join_set_next(&self->set, &self->task));
        if (!self->task) break;
        CHECK_EQ(self->next.out, 0);
        self->sum += aw_task_take(self->task);
    }
    AW_RETURN(self->sum);
    AW_FINALLY;
    if (AW_STARTED) AW_AWAIT(self->end, aw_join_set_shutdown(&self->set));
    AW_END;
}
AW_FIBER(int, squares_on_a_stack) {
    aw_join_set set = AW_JOIN_SET_INIT;
    aw_future *task;
    int sum = 0, status;
    for (int i = 1; i <= 20; i++) {
        if (i % 2)
            aw_join_set_spawn(&set, AW_CALL(square, .n = i));
        else
            aw_join_set_spawn(&set, AW_CALL(square_on_a_stack, .n = i));
    }
    while (status = aw_await(aw_join_set_next_any(&set, &task)), task) {
        CHECK_EQ(status, 0);
        sum += *(int *)aw_future_out(task);
        aw_task_drop_any(task);
    }
    AW_SHIELD {
        aw_await(aw_join_set_shutdown(&set));
    }
    return sum;
}
ON_BOTH(functions_and_fibers_walk_over_a_set) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    for (int i = 0; i < test_scale(100); i++) {
        CHECK_EQ(RUN(rt, AW_CALL(squares)), 2870);
        CHECK_EQ(RUN(rt, AW_CALL(squares_on_a_stack)), 2870);
    }
    workers_end(rt, &m);
}

/* ---- Handles of any type ---------------------------------------------------------------------- */

AW_ASYNC(int, waits_for_ever, aw_never never;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_END;
}

static const aw_location location = {"join_set.c", 1, NULL};

AW_ASYNC(int, walks_over_any, aw_join_set set; aw_future * task; int sum;
         aw_join_set_next_future next; aw_task_join_future join; int n[4];) {
    AW_BEGIN;
    aw_join_set_spawn(&self->set, AW_CALL(square, .n = 3));
    aw_join_set_spawn(&self->set, AW_CALL(square_on_a_stack, .n = 4));
    while (aw_join_set_count(&self->set)) {
        AW_AWAIT(self->next, aw_join_set_next_any(&self->set, &self->task));
        CHECK_EQ(self->next.out, 0);
        CHECK(aw_task_is_finished_any(self->task));
        CHECK_EQ(aw_task_error_any(self->task), 0);
        CHECK_NE(aw_task_id_any(self->task), 0);
        CHECK_CONTAINS(aw_task_name_any(self->task), "square");
        CHECK_CONTAINS(aw_task_location_any(self->task)->file, "join_set.c");
        CHECK_EQ(aw_task_take_any(self->task, self->n, 1), -EMSGSIZE);
        CHECK_EQ(aw_task_take_any(self->task, self->n, sizeof self->n), sizeof(int));
        self->sum += self->n[0];
    }
    aw_join_set_spawn(&self->set, AW_CALL(waits_for_ever));
    CHECK_EQ(aw_join_set_try_next_any(&self->set, &self->task), -EAGAIN);
    CHECK(self->task == NULL);
    aw_join_set_abort_all(&self->set);
    AW_AWAIT(self->next, aw_join_set_next_any(&self->set, &self->task));
    CHECK_EQ(aw_task_take_any(self->task, self->n, sizeof self->n), -ECANCELED);
    aw_task_drop_any(self->task);
    self->task = aw_spawn_future(NULL, &AW_CALL(waits_for_ever).future,
                                 sizeof(struct waits_for_ever), &location, NULL);
    CHECK_EQ(aw_task_take_any(self->task, self->n, sizeof self->n), -EAGAIN);
    aw_task_abort_any(self->task);
    AW_AWAIT(self->join, aw_task_join_any(self->task));
    CHECK_EQ(self->join.out, -ECANCELED);
    aw_task_drop_any(self->task);
    AW_RETURN(self->sum);
    AW_END;
}

ON_BOTH(a_handle_of_any_type_can_be_asked_joined_aborted_taken_and_dropped) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(walks_over_any)), 25);
    workers_end(rt, &m);
}

ON_BOTH(functions_and_fibers_that_are_aborted_leave_no_task_behind) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    uint64_t random = test_seed();
    for (int i = 0; i < test_scale(200); i++) {
        struct squares *f = aw_spawn_on(rt, AW_CALL(squares));
        struct squares_on_a_stack *g = aw_spawn_on(rt, AW_CALL(squares_on_a_stack));
        jitter(&random);
        aw_task_abort(f);
        aw_task_abort(g);
        JOIN_STATUS(rt, f);
        JOIN_STATUS(rt, g);
        aw_task_drop(f);
        aw_task_drop(g);
    }
    workers_end(rt, &m);
}
