/* SPDX-License-Identifier: MIT
 *
 * A limit on how many children of a scope run at once, and waiting for a slot. */
#include "support/scopes.h"

/* ---- The limit holds ------------------------------------------------------------------------- */

struct load {
    uint32_t now, max, done; /* atomic */
};
static void load_begin(struct load *l) {
    uint32_t now = ADD(l->now, 1) + 1, max = LOAD(l->max);
    while (now > max && !__atomic_compare_exchange_n(&l->max, &max, now, false, __ATOMIC_ACQ_REL,
                                                     __ATOMIC_ACQUIRE))
        ;
}
AW_ASYNC(int, job, struct load *load; int yields;) {
    AW_BEGIN;
    load_begin(self->load);
    while (self->yields-- > 0)
        AW_YIELD;
    ADD(self->load->now, -1);
    ADD(self->load->done, 1);
    AW_RETURN(0);
    AW_END;
}
AW_FIBER(int, stack_job, struct load *load; int yields;) {
    load_begin(self->load);
    while (self->yields-- > 0)
        aw_fiber_yield();
    ADD(self->load->now, -1);
    ADD(self->load->done, 1);
    return 0;
}
AW_ASYNC(int, jobs, aw_scope *scope; struct load * load; uint32_t limit; int i; bool polite;
         aw_scope_slot_future slot;) {
    AW_BEGIN;
    aw_scope_limit(self->scope, self->limit);
    for (; self->i < 200; self->i++) {
        if (self->polite) {
            AW_AWAIT(self->slot, aw_scope_slot(self->scope));
            CHECK_EQ(self->slot.out, 0);
            CHECK_LT(aw_scope_count(self->scope), self->limit); /* only this task spawns */
        }
        CHECK_EQ(self->i % 4 == 0
                     ? aw_scope_spawn(self->scope,
                                      AW_CALL(stack_job, .load = self->load, .yields = self->i % 3))
                     : aw_scope_spawn(self->scope,
                                      AW_CALL(job, .load = self->load, .yields = self->i % 5)),
                 0);
    }
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct jobs) jobs_scope;

static void limited(uint32_t workers, bool polite) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    for (uint32_t limit = 1; limit < 6; limit++) {
        struct load load = {0, 0, 0};
        struct jobs body = AW_CALL(jobs, .load = &load, .limit = limit, .polite = polite);
        CHECK_EQ(aw_block_on(rt, AW_SCOPE_OF(jobs_scope, body)), 0);
        CHECK_EQ(load.now, 0);
        CHECK_EQ(load.done, 200);
        CHECK_LE(load.max, limit);
        if (!workers) CHECK_EQ(load.max, limit);
    }
    workers_end(rt, &m);
}
ON_BOTH(no_more_children_run_than_the_limit) {
    limited(workers, false);
}
ON_BOTH(a_body_that_waits_for_slots_has_no_waiting_child) {
    limited(workers, true);
}

/* ---- One by one ------------------------------------------------------------------------------ */

/* Three children, of which one may run, and a body that waits. */
struct fixture {
    aw_runtime *rt;
    memory memory;
    aw_flag flag;
    struct kid kids[3], own;
    parent_scope s;
};
static void begin(struct fixture *t, uint32_t workers) {
    t->rt = new_runtime(workers, &t->memory, NULL);
    t->flag = (aw_flag){0};
    for (int i = 0; i < 3; i++)
        t->kids[i] = (struct kid)KID;
    t->own = (struct kid)KID;
    t->s = PARENT(.kids = t->kids, .n = 3, .own = &t->own, .limit = 1);
    CHECK_EQ(poll_in(t->rt, &t->s.future, &t->flag), AW_PENDING);
    run_a_while(t->rt);
}
static void end(struct fixture *t) {
    check_kids(t->kids, 3);
    workers_end(t->rt, &t->memory);
}
static aw_poll cancel_to_end(struct fixture *t) {
    aw_poll r;
    while ((r = CANCEL(&t->s, &t->flag)) == AW_PENDING) {
        run_a_while(t->rt);
        CHECK(aw_flag_take(&t->flag));
    }
    return r;
}
static int begun(const struct fixture *t) {
    return (int)(LOAD(t->kids[0].begun) + LOAD(t->kids[1].begun) + LOAD(t->kids[2].begun));
}

ON_BOTH(a_child_begins_when_the_one_before_it_has_ended) {
    struct fixture t;
    begin(&t, workers);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(begun(&t), i + 1);
        CHECK_EQ(t.kids[i].begun, 1);
        CHECK_EQ(aw_scope_count(t.s.body.scope), 3 - i);
        gate_open(&t.kids[i].gate);
        run_a_while(t.rt);
    }
    gate_open(&t.own.gate);
    CHECK_EQ(poll_in(t.rt, &t.s.future, &t.flag), AW_READY);
    end(&t);
}

ON_BOTH(children_that_wait_for_a_slot_are_cancelled_unstarted) {
    struct fixture t;
    begin(&t, workers);
    CHECK_EQ(cancel_to_end(&t), AW_CANCELLED);
    CHECK_EQ(begun(&t), 1);
    CHECK_EQ(t.kids[1].unstarted + t.kids[2].unstarted, 2);
    end(&t);
}

ON_BOTH(an_error_cancels_children_that_wait_for_a_slot) {
    struct fixture t;
    begin(&t, workers);
    t.kids[0].result = -EIO;
    gate_open(&t.kids[0].gate);
    run_a_while(t.rt);
    CHECK(aw_flag_take(&t.flag));
    aw_poll r;
    while ((r = poll_in(t.rt, &t.s.future, &t.flag)) == AW_PENDING)
        run_a_while(t.rt);
    CHECK_EQ(r, AW_READY);
    CHECK_EQ(t.s.out, -EIO);
    CHECK_EQ(t.kids[2].unstarted, 1);
    end(&t);
}

ON_BOTH(a_limit_that_is_raised_lets_more_begin) {
    struct fixture t;
    begin(&t, workers);
    CHECK_EQ(aw_scope_try_slot(t.s.body.scope), -EAGAIN);
    aw_scope_limit(t.s.body.scope, 2);
    run_a_while(t.rt);
    CHECK_EQ(begun(&t), 2);
    aw_scope_limit(t.s.body.scope, 0);
    run_a_while(t.rt);
    CHECK_EQ(begun(&t), 3);
    CHECK_EQ(aw_scope_try_slot(t.s.body.scope), 0);
    CHECK_EQ(cancel_to_end(&t), AW_CANCELLED);
    end(&t);
}

ON_BOTH(a_runtime_that_ends_ends_children_that_wait_for_a_slot) {
    struct fixture t;
    begin(&t, workers);
    aw_runtime_free(t.rt);
    CHECK(aw_flag_take(&t.flag));
    CHECK_EQ(POLL(&t.s, &t.flag), AW_READY);
    CHECK_EQ(t.s.out, -ECANCELED);
    check_kids(t.kids, 3);
    CHECK_EQ(memory_in_use(&t.memory), 0);
}

/* ---- Waiting for a slot: cancelled in every state -------------------------------------------- */

ON_BOTH(a_wait_for_a_slot_that_never_began_is_cancelled_at_once) {
    struct fixture t;
    aw_flag flag = {0};
    begin(&t, workers);
    aw_scope_slot_future slot = aw_scope_slot(t.s.body.scope);
    CHECK_EQ(CANCEL(&slot, &flag), AW_CANCELLED);
    CHECK_EQ(cancel_to_end(&t), AW_CANCELLED);
    end(&t);
}

ON_BOTH(a_wait_for_a_slot_that_is_cancelled_is_not_woken) {
    struct fixture t;
    aw_flag flag = {0}, other = {0};
    begin(&t, workers);
    aw_scope_slot_future slot = aw_scope_slot(t.s.body.scope),
                         stays = aw_scope_slot(t.s.body.scope);
    CHECK_EQ(POLL(&slot, &flag), AW_PENDING);
    CHECK_EQ(POLL(&stays, &other), AW_PENDING);
    CHECK_EQ(CANCEL(&slot, &flag), AW_CANCELLED);
    for (int i = 0; i < 3; i++) {
        CHECK(!aw_flag_take(&other)); /* children are still waiting for a slot */
        gate_open(&t.kids[i].gate);
        run_a_while(t.rt);
    }
    CHECK(!aw_flag_take(&flag));
    CHECK(aw_flag_take(&other));
    CHECK_EQ(POLL(&stays, &other), AW_READY);
    CHECK_EQ(stays.out, 0);
    CHECK_EQ(cancel_to_end(&t), AW_CANCELLED);
    end(&t);
}

ON_BOTH(a_wait_for_a_slot_that_was_woken_answers_ready_to_a_cancel) {
    struct fixture t;
    aw_flag flag = {0};
    begin(&t, workers);
    aw_scope_slot_future slot = aw_scope_slot(t.s.body.scope);
    CHECK_EQ(POLL(&slot, &flag), AW_PENDING);
    aw_scope_limit(t.s.body.scope, 4);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&slot, &flag), AW_READY);
    CHECK_EQ(slot.out, 0);
    CHECK_EQ(cancel_to_end(&t), AW_CANCELLED);
    end(&t);
}

/* More than one batch of wakes. */
ON_BOTH(all_waits_for_a_slot_are_woken_when_the_scope_ends) {
    struct fixture t;
    aw_flag flags[20] = {{0}};
    aw_scope_slot_future slots[20];
    begin(&t, workers);
    for (int i = 0; i < 20; i++) {
        slots[i] = aw_scope_slot(t.s.body.scope);
        CHECK_EQ(POLL(&slots[i], &flags[i]), AW_PENDING);
    }
    aw_poll r = CANCEL(&t.s, &t.flag); /* workers may have finished the children by then */
    if (!workers) CHECK_EQ(r, AW_PENDING);
    for (int i = 0; i < 20; i++) {
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&slots[i], &flags[i]), AW_READY);
        CHECK_EQ(slots[i].out, -ECANCELED);
    }
    run_a_while(t.rt);
    if (r == AW_PENDING) r = cancel_to_end(&t);
    CHECK_EQ(r, AW_CANCELLED);
    end(&t);
}
