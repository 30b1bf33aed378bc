/* SPDX-License-Identifier: MIT
 *
 * Cancel at every await: a specimen, which is any future, is put into chains of functions, groups,
 * arrays, sets, boxes, timeouts and tasks; each chain is cancelled at each of its steps, and again some
 * steps later, with leaves around the specimen that win and that lose the race. After each run
 * everything that was acquired has been released, and nothing was reported. */
#ifndef AWAKE_TEST_CHAIN_H
#define AWAKE_TEST_CHAIN_H

#include "support/knife.h"
#include "support/memory.h"
#include "support/script.h"

struct specimen {
    aw_future *(*make)(void);  /* in static storage */
    void (*take)(aw_future *); /* of a finished one: release what its output owns; may be NULL */
    /* What has to be awaited, if anything, and then done when the function that made it cleans up. */
    aw_future *(*clear)(void);
    void (*clean)(void);
    void (*after)(void); /* when the runtime is gone: is everything where it belongs? */
};

static struct specimen specimen;

/* ---- Leaves ----------------------------------------------------------------------------------- */

static struct {
    struct script scripts[128];
    int used;
    unsigned style; /* which of them win, and how long they take */
    int problems;
    struct memory memory;
} chain;

/* A leaf that pends, then is ready; cancelled it does as the style of this run says. */
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
    s->hurries = true;
    return leaf(s);
}

/* Any future, as a member of a frame. */
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

/* ---- The function around the specimen --------------------------------------------------------- */

struct inner {
    AW_FRAME(int);
    int argument, holder;
    struct leaf leaf;
    struct chain_via via;
};
static inline void inner_discard(aw_future *self) {
    ledger_give_back(((struct inner *)self)->out);
}
AW_ASYNC_STATIC(inner, .discard = inner_discard) {
    AW_BEGIN;
    self->holder = ledger_enter(0);
    AW_AWAIT(self->leaf, chain_leaf(1, self->holder));
    ledger_give_back(self->leaf.out);
    AW_AWAIT(self->via, chain_via(specimen.make()));
    if (specimen.take) specimen.take(self->via.to);
    AW_AWAIT(self->leaf, chain_leaf(1, self->holder));
    AW_RETURN(self->leaf.out);
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->leaf, chain_leaf(1, self->holder));
        ledger_give_back(self->leaf.out);
        if (specimen.clear) AW_AWAIT(self->via, chain_via(specimen.clear()));
        if (specimen.clean) specimen.clean();
        ledger_leave(self->holder);
    }
    ledger_give_back(self->argument);
    AW_END;
}

static inline struct inner call_inner(void) {
    return AW_CALL(inner, .argument = ledger_token());
}

/* ---- The chains ------------------------------------------------------------------------------- */

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
/* The outputs of an array that was joined. */
static inline void take_boxes(int n) {
    ledger_give_back(aw_box_take(struct inner, &chain_boxes[0]));
    for (int i = 1; i < n; i++)
        ledger_give_back(aw_box_take(struct leaf, &chain_boxes[i]));
}
static inline void take_box(aw_box *b) {
    if (b->inner->type == &leaf_type)
        ledger_give_back(aw_box_take(struct leaf, b));
    else
        ledger_give_back(aw_box_take(struct inner, b));
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
    ledger_give_back(((struct outer *)self)->out);
}
AW_ASYNC_STATIC(outer, .discard = outer_discard) {
    AW_BEGIN;
    self->holder = ledger_enter(0);
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
        AW_RETURN(self->timed.out ? ledger_token() : self->timed.inner.out);
    }
    if (self->shape == JOINED) {
        AW_AWAIT_JOIN(self->join, call_inner(), chain_leaf(3, self->holder));
        ledger_give_back(self->join.f1.out);
        AW_RETURN(self->join.f0.out);
    }
    if (self->shape == TRY_JOINED) {
        AW_AWAIT_TRY_JOIN(self->try, chain_leaf(2, self->holder), call_inner());
        ledger_give_back(self->try.f0.out);
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
        AW_RETURN(ledger_token());
    }
    if (self->shape == AMONG_MANY) {
        fill_boxes(ARRAY, NEVER, self->holder);
        AW_AWAIT(self->all, aw_select_all(chain_boxes, ARRAY));
        take_box(&chain_boxes[aw_select_all_winner(&self->all)]);
        AW_RETURN(ledger_token());
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
        AW_RETURN(ledger_token());
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
    ledger_give_back(self->nested.inner.f0.f1.out);
    AW_RETURN(aw_box_take(struct inner, &self->nested.inner.f0.f0));
    AW_FINALLY;
    if (self->shape == IN_A_SET && AW_STARTED) {
        AW_AWAIT(self->clear, aw_set_clear(&self->set));
        aw_set_free(&self->set);
    }
    if (self->task && self->out == 0) {
        aw_task_abort(self->task);
        AW_AWAIT(self->task_join, aw_task_join(self->task));
        if (self->task_join.out == 0) ledger_give_back(self->task->out);
    }
    if (self->task) aw_task_drop(self->task);
    if (AW_STARTED) ledger_leave(self->holder);
    AW_END;
}

/* ---- One run ---------------------------------------------------------------------------------- */

static inline void chain_problem(void *data, aw_log_level level, const char *message) {
    (void)data;
    if (level == AW_LOG_INFO) return;
    fprintf(stderr, "%s\n", message);
    ADD(chain.problems, 1);
}

/* When the clock gets this far everything else was idle. */
AW_ASYNC(int, watchdog, struct plan plan; int shape; aw_sleep s;) {
    AW_BEGIN;
    AW_AWAIT(self->s, aw_sleep_for(AW_SEC(1000)));
    FAIL("stuck: shape %d, style %u, cut at %d %s, again %d", self->shape, chain.style,
         self->plan.at, self->plan.woken ? "woken" : "pending", self->plan.again);
    AW_END;
}

/* True: the plan came to its cut, or the future might have been cut later. */
static inline bool cut_once(enum shape shape, struct plan plan, bool discard) {
    ledger_reset();
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
    struct knife k = knife(&f.future, plan);
    CHECK_EQ(aw_block_on_future(rt, &k.future), 0);
    if (k.out == AW_READY && discard)
        aw_future_discard(&f.future);
    else if (k.out == AW_READY)
        ledger_give_back(f.out);
    CHECK(k.out == AW_READY || k.cut);
    aw_runtime_free(rt);
    for (int i = 0; i < chain.used; i++) {
        CHECK(script_ended(&chain.scripts[i]));
        CHECK(chain.scripts[i].waker.type == NULL);
    }
    if (specimen.after) specimen.after();
    ledger_check_balanced();
    memory_check_empty(&chain.memory);
    CHECK_EQ(chain.problems, 0);
    return k.cut;
}

/* At each step; how often. */
static inline long cut_at_each_step(enum shape shape, struct plan plan, unsigned style) {
    long runs = 0;
    for (chain.style = style; cut_once(shape, plan, runs % 2); plan.at++)
        runs++;
    return runs;
}

/* Everywhere. */
static inline void cut_everywhere(struct specimen s) {
    /* Each cut starts and ends the threads of a runtime, if it has any. */
    unsigned all = 64, styles = test_on_workers() ? 1 : (unsigned)test_scale((int)all);
    bool few = test_on_workers() && test_under_sanitizer();
    long runs = 0, plans = 0;
    specimen = s;
    for (unsigned shape = 0; shape < SHAPES; shape++)
        for (unsigned again = 0; again < 3; again++)
            for (unsigned woken = 0; woken < 2; woken++)
                for (unsigned n = 0; n < styles; n++) {
                    if (few && (shape + woken) % 3 != again) continue;
                    /* Where there is only time for a few styles, each shape has others. */
                    unsigned style = (n * 29 + shape * 11 + again * 3 + woken * 37) % all;
                    struct plan plan = {(int)woken, woken, (int)again};
                    runs += cut_at_each_step((enum shape)shape, plan, style);
                    plans++;
                }
    CHECK_GT(runs, plans); /* more than one cut to each */
}

#endif
