/* SPDX-License-Identifier: MIT
 *
 * The main future of block_on can do what a task can, whichever thread runs the tasks: it has
 * locals, and may run without a budget. */
#include "support/workers.h"

static aw_runtime *runtime(aw_flavour flavour) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = flavour;
    o.workers = 2;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

static aw_local key;
static uint32_t released;
static void release(void *value) {
    CHECK_EQ((uintptr_t)value, 42);
    ADD(released, 1);
}

AW_ASYNC(int, has_no_local, char unused;) {
    AW_BEGIN;
    AW_RETURN(aw_local_get(&key) == NULL ? 0 : -EEXIST);
    AW_END;
}

AW_ASYNC(int, has_a_local, struct has_no_local *h; aw_task_join_future join; aw_sleep nap;) {
    AW_BEGIN;
    CHECK_EQ(aw_local_get(&key), NULL);
    CHECK_EQ(aw_local_set(&key, (void *)42, release), 0);
    self->h = aw_spawn(AW_CALL(has_no_local));
    AW_AWAIT(self->join, aw_task_join(self->h));
    CHECK_EQ(aw_task_take(self->h), 0);
    AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(100)));
    CHECK_EQ((uintptr_t)aw_local_get(&key), 42);
    CHECK_EQ(LOAD(released), 0);
    CHECK_EQ(aw_current_task_id(), 0);
    AW_RETURN(0);
    AW_END;
}

ON_FLAVOURS(the_main_future_has_locals) {
    aw_runtime *rt = runtime(flavour);
    for (int i = 0; i < 3; i++) {
        released = 0;
        CHECK_EQ(aw_block_on(rt, AW_CALL(has_a_local)), 0);
        CHECK_EQ(released, 1); /* it ended with the future */
    }
    aw_runtime_free(rt);
}

/* Counts how many operations fit into its budget. */
struct counts {
    aw_future future;
    int out;
    bool unbudgeted;
};
static aw_poll counts_poll(aw_future *self, aw_cx *cx) {
    struct counts *c = (struct counts *)self;
    CHECK_EQ(aw_unbudgeted(cx, c->unbudgeted), 0);
    for (c->out = 0; c->out < 1000 && aw_cx_spend(cx);)
        c->out++;
    return AW_READY;
}
static const aw_future_type counts_type = {AW_TYPE_OF(struct counts, "counts"),
                                           .poll = counts_poll};

ON_FLAVOURS(the_main_future_may_do_without_a_budget) {
    aw_runtime *rt = runtime(flavour);
    CHECK_EQ(aw_block_on(rt, (struct counts){AW_FUTURE_INIT(&counts_type), 0, true}), 1000);
    CHECK_EQ(aw_block_on(rt, (struct counts){AW_FUTURE_INIT(&counts_type), 0, false}), 128);
    aw_runtime_free(rt);
}
