/* SPDX-License-Identifier: MIT
 *
 * Cancels at every await. A specimen, which is any future, is put into chains of async
 * functions, groups, arrays, sets, boxes, timeouts and tasks. Each chain is cancelled at each of
 * its steps, and again some steps later. The leaves around the specimen win or lose the race
 * against the cancel. After each run everything acquired must have been released, and no problem
 * reported. */
#ifndef AWAKE_TEST_CANCEL_EVERY_AWAIT_H
#define AWAKE_TEST_CANCEL_EVERY_AWAIT_H

#include "support/cancel_at.h"
#include "support/memory.h"
#include "support/script.h"

struct specimen {
    aw_future *(*make)(void); /* in static storage */
    /* Releases what the output of a finished specimen owns; may be NULL. */
    void (*take)(aw_future *);
    /* For the cleanup of the function that made the specimen: a future to await first, and then
     * a function to call. Either may be NULL. */
    aw_future *(*clear)(void);
    void (*clean)(void);
    /* Checks after the runtime has been freed; may be NULL. */
    void (*after)(void);
};

static struct specimen specimen;

/* ---- Leaves ---------------------------------------------------------------------------------- */

static struct {
    struct script scripts[128];
    int used;
    unsigned style; /* selects which leaves win, and how long they take */
    int problems;
    struct memory memory;
} chain;

/* A leaf that is pending `pends` times, and then ready. How it reacts to a cancel depends on the
 * style of the run. */
static inline struct leaf chain_leaf(int pends, int parent) {
    int n = ADD(chain.used, 1) + 1;
    struct script *s = &chain.scripts[n - 1];
    CHECK_LT(n, 128);
    unsigned bits = chain.style * 2654435761u >> (unsigned)(n * 5 % 24);
    *s = (struct script){.pends = pends, .busy = pends != NEVER, .parent = parent};
    s->owns = true;
    s->borrows = chain.style & 8;
    s->wins = bits & 1;
    s->cancel_pends = (int)(bits >> 1 & 1);
    s->busy_cancel = true;
    return leaf(s);
}

/* Embeds any future by pointer as a member of a frame. */
struct chain_via {
    aw_future future;
    int out;
    aw_future *to;
};
static inline aw_poll chain_via_poll(aw_future *self, aw_cx *cx) {
    return aw_future_poll(((struct chain_via *)self)->to, cx);
}
static inline aw_poll chain_via_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_cancel(((struct chain_via *)self)->to, cx);
}
static const aw_future_type chain_via_type = {AW_TYPE_OF(struct chain_via, "via"),
                                              .poll = chain_via_poll, .cancel = chain_via_cancel};
static inline struct chain_via chain_via(aw_future *to) {
    return (struct chain_via){AW_FUTURE_INIT(&chain_via_type), 0, to};
}

/* ---- The function around the specimen -------------------------------------------------------- */

struct inner {
    AW_FRAME(int);
    int argument, holder;
    struct leaf leaf;
    struct chain_via via;
};
static inline void inner_discard(aw_future *self) {
    ownership_release(((struct inner *)self)->out);
}
AW_ASYNC_STATIC(inner, .discard = inner_discard) {
    AW_BEGIN;
    self->holder = ownership_enter(0);
    AW_AWAIT(self->leaf, chain_leaf(1, self->holder));
    ownership_release(self->leaf.out);
    AW_AWAIT(self->via, chain_via(specimen.make()));
    if (specimen.take) specimen.take(self->via.to);
    AW_AWAIT(self->leaf, chain_leaf(1, self->holder));
    AW_RETURN(self->leaf.out);
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->leaf, chain_leaf(1, self->holder));
        ownership_release(self->leaf.out);
        if (specimen.clear) AW_AWAIT(self->via, chain_via(specimen.clear()));
        if (specimen.clean) specimen.clean();
        ownership_leave(self->holder);
    }
    ownership_release(self->argument);
    AW_END;
}

static inline struct inner call_inner(void) {
    return AW_CALL(inner, .argument = ownership_token());
}

/* ---- The chains ------------------------------------------------------------------------------ */

enum shape {
    BARE,
    BOXED,
    IN_TIME,
    TOO_LATE,
    JOINED,
    TRY_JOINED,
    SELECTED,
    OUTRUN,
    IN_FEW,
    IN_MANY,
    AMONG_MANY,
    IN_A_SET,
    A_TASK,
    NESTED,
    SHAPES
};

enum { ARRAY = 33 };
static aw_box chain_boxes[ARRAY];

static inline void fill_boxes(int n, int pends, int holder) {
    chain_boxes[0] = aw_box_new(call_inner());
    for (int i = 1; i < n; i++)
        chain_boxes[i] = aw_box_new(chain_leaf(pends, holder));
}
/* Releases the outputs of a joined array. */
static inline void take_boxes(int n) {
    ownership_release(aw_box_take(struct inner, &chain_boxes[0]));
    for (int i = 1; i < n; i++)
        ownership_release(aw_box_take(struct leaf, &chain_boxes[i]));
}
static inline void take_box(aw_box *b) {
    if (b->inner->type == &leaf_type)
        ownership_release(aw_box_take(struct leaf, b));
    else
        ownership_release(aw_box_take(struct inner, b));
}

typedef AW_JOIN(aw_box, struct leaf) nested_join;
typedef AW_SELECT(nested_join, struct leaf) nested_select;

struct outer {
    AW_FRAME(int);
    enum shape shape;
    int holder;
    struct inner *task;
    aw_set set;
    AW_SHARE(struct inner bare; aw_box box; AW_TIMEOUT(struct inner) timed;
             AW_JOIN(struct inner, struct leaf) join; AW_TRY_JOIN(struct leaf, struct inner) try;
             AW_SELECT(struct inner, struct leaf) select; aw_all all; aw_set_next_future next;
             aw_set_clear_future clear; aw_task_join_future task_join;
             AW_TIMEOUT(nested_select) nested;);
};

static inline void outer_discard(aw_future *self) {
    ownership_release(((struct outer *)self)->out);
}
AW_ASYNC_STATIC(outer, .discard = outer_discard) {
    AW_BEGIN;
    self->holder = ownership_enter(0);
    if (self->shape == BARE) {
        AW_AWAIT(self->bare, call_inner());
        AW_RETURN(self->bare.out);
    }
    if (self->shape == BOXED) {
        AW_AWAIT(self->box, aw_box_new(call_inner()));
        AW_RETURN(aw_box_take(struct inner, &self->box));
    }
    if (self->shape == IN_TIME) {
        AW_AWAIT_FOR(self->timed, AW_SEC(100), call_inner());
        CHECK_EQ(self->timed.out, 0);
        AW_RETURN(self->timed.inner.out);
    }
    if (self->shape == TOO_LATE) {
        AW_AWAIT_FOR(self->timed, AW_USEC(500), call_inner());
        AW_RETURN(self->timed.out ? ownership_token() : self->timed.inner.out);
    }
    if (self->shape == JOINED) {
        AW_AWAIT_JOIN(self->join, call_inner(), chain_leaf(3, self->holder));
        ownership_release(self->join.f1.out);
        AW_RETURN(self->join.f0.out);
    }
    if (self->shape == TRY_JOINED) {
        AW_AWAIT_TRY_JOIN(self->try, chain_leaf(2, self->holder), call_inner());
        ownership_release(self->try.f0.out);
        AW_RETURN(self->try.f1.out);
    }
    if (self->shape == SELECTED || self->shape == OUTRUN) {
        AW_AWAIT_SELECT(self->select, call_inner(),
                        chain_leaf(self->shape == OUTRUN ? 3 : NEVER, self->holder));
        if (aw_select_winner(&self->select) == 0) AW_RETURN(self->select.f0.out);
        AW_RETURN(self->select.f1.out);
    }
    if (self->shape == IN_FEW || self->shape == IN_MANY) {
        fill_boxes(self->shape == IN_FEW ? 3 : ARRAY, 2, self->holder);
        AW_AWAIT(self->all, aw_join_all(chain_boxes, self->shape == IN_FEW ? 3 : ARRAY));
        take_boxes(self->shape == IN_FEW ? 3 : ARRAY);
        AW_RETURN(ownership_token());
    }
    if (self->shape == AMONG_MANY) {
        fill_boxes(ARRAY, NEVER, self->holder);
        AW_AWAIT(self->all, aw_select_all(chain_boxes, ARRAY));
        take_box(&chain_boxes[aw_select_all_winner(&self->all)]);
        AW_RETURN(ownership_token());
    }
    if (self->shape == IN_A_SET) {
        aw_set_init(&self->set, sizeof(aw_box));
        fill_boxes(12, 2, self->holder);
        for (int i = 0; i < 12; i++)
            CHECK_EQ(aw_set_push(&self->set, chain_boxes[i]), 0);
        while (self->set.count) {
            AW_AWAIT(self->next, aw_set_next(&self->set));
            take_box(AW_SET_AS(aw_box, &self->next));
        }
        AW_RETURN(ownership_token());
    }
    if (self->shape == A_TASK) {
        self->task = aw_spawn(call_inner());
        AW_AWAIT(self->task_join, aw_task_join(self->task));
        CHECK_EQ(self->task_join.out, 0);
        AW_RETURN(self->task->out);
    }
    AW_AWAIT_FOR(
        self->nested, AW_SEC(100),
        AW_SELECT_OF(nested_select,
                     AW_JOIN_OF(nested_join, aw_box_new(call_inner()), chain_leaf(1, self->holder)),
                     chain_leaf(NEVER, self->holder)));
    CHECK_EQ(self->nested.out, 0);
    if (aw_select_winner(&self->nested.inner) == 1) AW_RETURN(self->nested.inner.f1.out);
    ownership_release(self->nested.inner.f0.f1.out);
    AW_RETURN(aw_box_take(struct inner, &self->nested.inner.f0.f0));
    AW_FINALLY;
    if (self->shape == IN_A_SET && AW_STARTED) {
        AW_AWAIT(self->clear, aw_set_clear(&self->set));
        aw_set_free(&self->set);
    }
    if (self->task && self->out == 0) {
        aw_task_abort(self->task);
        AW_AWAIT(self->task_join, aw_task_join(self->task));
        if (self->task_join.out == 0) ownership_release(self->task->out);
    }
    if (self->task) aw_task_drop(self->task);
    if (AW_STARTED) ownership_leave(self->holder);
    AW_END;
}

/* ---- One run --------------------------------------------------------------------------------- */

static inline void chain_problem(void *data, aw_log_level level, const char *message) {
    (void)data;
    if (level == AW_LOG_INFO) return;
    fprintf(stderr, "%s\n", message);
    ADD(chain.problems, 1);
}

/* Virtual time reaches this point only when everything else is idle. */
AW_ASYNC(int, watchdog, struct cancel_plan plan; int shape; aw_sleep s;) {
    AW_BEGIN;
    AW_AWAIT(self->s, aw_sleep_for(AW_SEC(1000)));
    FAIL("stuck: shape %d, style %u, cut at %d %s, again %d", self->shape, chain.style,
         self->plan.at, self->plan.woken ? "woken" : "pending", self->plan.again);
    AW_END;
}

/* Returns true if the plan reached its cancel: a later step may exist. */
static inline bool cancel_at_step(enum shape shape, struct cancel_plan plan, bool discard) {
    ownership_reset();
    chain.used = 0;
    memory_init(&chain.memory);
    aw_runtime *rt;
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.paused = true;
    options.seed = chain.style + 1;
    options.log = chain_problem;
    options.allocator = &chain.memory.allocator;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(watchdog, .plan = plan, .shape = (int)shape)));

    struct outer f = AW_CALL(outer, .shape = shape);
    struct cancel_at k = cancel_at(&f.future, plan);
    CHECK_EQ(aw_block_on_future(rt, &k.future), 0);
    if (k.out == AW_READY && discard)
        aw_future_discard(&f.future);
    else if (k.out == AW_READY)
        ownership_release(f.out);
    CHECK(k.out == AW_READY || k.cancelling);
    aw_runtime_free(rt);
    for (int i = 0; i < chain.used; i++) {
        CHECK(script_ended(&chain.scripts[i]));
        CHECK(chain.scripts[i].waker.type == NULL);
    }
    if (specimen.after) specimen.after();
    ownership_check_balanced();
    memory_check_empty(&chain.memory);
    CHECK_EQ(chain.problems, 0);
    return k.cancelling;
}

/* Cancels at each step. Returns the number of runs. */
static inline long cancel_at_each_step(enum shape shape, struct cancel_plan plan, unsigned style) {
    long runs = 0;
    for (chain.style = style; cancel_at_step(shape, plan, runs % 2); plan.at++)
        runs++;
    return runs;
}

/* Cancels each shape at each step, in all variants. */
static inline void cancel_everywhere(struct specimen s) {
    /* On workers each run starts and joins the threads of a runtime. */
    unsigned all = 64, styles = test_on_workers() ? 1 : (unsigned)test_scale((int)all);
    bool few = test_on_workers() && test_under_sanitizer();
    long runs = 0, plans = 0;
    specimen = s;
    for (unsigned shape = 0; shape < SHAPES; shape++)
        for (unsigned again = 0; again < 3; again++)
            for (unsigned woken = 0; woken < 2; woken++)
                for (unsigned n = 0; n < styles; n++) {
                    if (few && (shape + woken) % 3 != again) continue;
                    /* If there is only time for a few styles, each shape gets different ones. */
                    unsigned style = (n * 29 + shape * 11 + again * 3 + woken * 37) % all;
                    struct cancel_plan plan = {(int)woken, woken, (int)again};
                    runs += cancel_at_each_step((enum shape)shape, plan, style);
                    plans++;
                }
    CHECK_GT(runs, plans); /* on average more than one step to cancel at */
}

#endif
