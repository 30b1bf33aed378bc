/* SPDX-License-Identifier: MIT
 *
 * A random program of spawns, awaits, selects, joins, timeouts, aborts, failures, sleeps,
 * notifications, messages, sets and boxes, under virtual time. At its end ownership must be
 * balanced (ownership.h): each entered frame has left once and before its parent, each resource
 * has been released, no task is left, and no problem was reported.
 *
 * The program is made of parts. Parts are actors, which are async functions; a test may add
 * other kinds. Each part is checked: the result of its poll or cancel must match what its body
 * went through.
 *
 * On one thread a program is deterministic. On workers the random choices depend on timing, and
 * shared state is atomic or locked. */
#ifndef AWAKE_TEST_RANDOM_PROGRAM_H
#define AWAKE_TEST_RANDOM_PROGRAM_H

#include <errno.h>
#include <pthread.h>

#include "support/ownership.h"
#include "support/memory.h"

#include <awake.h>

enum {
    ACTORS = 200,
    ROOTS = 5,
    DEPTH = 4,
    KEPT = 3,
    NOTIFIES = 3,
    CHANNELS = 4,
    CROWD = 31,
    PARTS = 8192
};

typedef AW_ONESHOT(int) channel;

/* What the body of a part went through, and its result. */
struct part {
    bool entered, cut, returned, left, aborted;
    aw_poll answer;
};

static struct {
    uint64_t seed, random, order, trace, begin;
    aw_runtime *rt;
    int actors, last_part, problems;
    bool closing;
    aw_notify notify[NOTIFIES];
    channel channels[CHANNELS];
    bool receiving[CHANNELS];
    char said[512];
    struct memory memory;
    struct part parts[PARTS];
} world;

static inline uint64_t any(uint64_t below) {
    return test_random_shared(&world.random) % below;
}

/* Hashes the events in order. Between workers there is no order. */
static inline void trace(uint64_t what, uint64_t detail) {
    if (aw_runtime_workers(world.rt)) return;
    uint64_t now = aw_now(world.rt) - world.begin;
    world.trace = (world.trace ^ what ^ detail << 8 ^ now << 24) * 0x100000001b3u;
    world.trace ^= world.trace >> 29;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static inline int part_new(void) {
    int id = ADD(world.last_part, 1) + 1;
    CHECK_LT(id, PARTS);
    world.parts[id] = (struct part){0};
    return id;
}

static inline aw_poll part_answers(int id, aw_poll answer) {
    struct part *p = &world.parts[id];
    if (answer == AW_PENDING) return answer;
    if (p->answer) FAIL("program %llu: part %d ended twice", (unsigned long long)world.seed, id);
    p->answer = answer;
    bool finished = p->returned && !p->cut;
    if (p->entered != p->left || (answer == AW_READY) != finished)
        FAIL("program %llu: part %d is %s, but was %sentered, %scut, has %sreturned and %sleft",
             (unsigned long long)world.seed, id, answer == AW_READY ? "ready" : "cancelled",
             p->entered ? "" : "not ", p->cut ? "" : "not ", p->returned ? "" : "not ",
             p->left ? "" : "not ");
    return answer;
}

/* The future type of a kind of part, with checked results. The frame needs a member `part`. */
#define WATCHED(fn)                                                                                \
    static aw_poll watched_poll_##fn(aw_future *self, aw_cx *cx) {                                 \
        return part_answers(((struct fn *)self)->part, aw_type_##fn.poll(self, cx));               \
    }                                                                                              \
    static aw_poll watched_cancel_##fn(aw_future *self, aw_cx *cx) {                               \
        return part_answers(((struct fn *)self)->part, aw_type_##fn.cancel(self, cx));             \
    }                                                                                              \
    static aw_future_type watched_##fn;                                                            \
    __attribute__((constructor)) static void watch_##fn(void) {                                    \
        watched_##fn = aw_type_##fn;                                                               \
        watched_##fn.poll = watched_poll_##fn;                                                     \
        watched_##fn.cancel = watched_cancel_##fn;                                                 \
    }

/* A task, and the number of its part. */
struct kept {
    aw_future *task;
    int part;
};

/* Other kinds of parts, if there are any. A part inside another part ends before it. */
static struct kinds {
    aw_box (*box)(int depth, int parent);
    struct kept (*spawn)(void);
    void (*begin)(void); /* after the runtime was created */
    void (*end)(void);   /* after it was freed */
    /* Tasks that `begin` has spawned and that do not end by themselves. */
    size_t background;
} kinds;

static inline void task_abort(struct kept k) {
    world.parts[k.part].aborted = true;
    aw__task_abort(k.task);
}

/* A join must report the result of the task. A task that was not aborted is not cancelled. */
static inline void check_joined(struct kept k, int status) {
    const struct part *p = &world.parts[k.part];
    trace(103, (uint64_t)-status);
    CHECK_EQ(p->answer, status == 0 ? AW_READY : AW_CANCELLED);
    if (status == -ECANCELED) CHECK(p->aborted || LOAD(world.closing));
}

/* An output is a token, or an error. */
static inline void release_output(int out) {
    trace(100, out < 0 ? (uint64_t)-out : 0);
    if (out > 0) ownership_release(out);
}
static inline void take(aw_box *b) {
    int out = *(int *)aw_future_out(b->inner);
    CHECK_EQ(b->out, 0);
    aw_box_free(b);
    release_output(out);
}

static inline aw_sleep nap(void) {
    return aw_sleep_for(AW_USEC(any(8) * 250));
}

/* A receiver that reinitialises a channel must not race with senders. */
static pthread_mutex_t channel_lock = PTHREAD_MUTEX_INITIALIZER;

static inline void send_token(void) {
    int c = (int)any(CHANNELS), token = ownership_token();
    pthread_mutex_lock(&channel_lock);
    int error = aw_oneshot_send(&world.channels[c], token);
    pthread_mutex_unlock(&channel_lock);
    trace(102, (uint64_t)-error);
    if (error) ownership_release(token);
}
/* Only one part at a time receives from a channel. */
static inline bool receive_begin(int c) {
    return !__atomic_exchange_n(&world.receiving[c], true, __ATOMIC_ACQUIRE);
}
static inline void receive_end(int c) {
    STORE(world.receiving[c], false);
}
/* Takes the message of a finished receive, and reinitialises the channel. */
static inline void take_message(int c) {
    ownership_release(world.channels[c].value);
    pthread_mutex_lock(&channel_lock);
    world.channels[c] = (channel)AW_ONESHOT_INIT;
    pthread_mutex_unlock(&channel_lock);
}

static aw_local key;
static inline void release_local(void *value) {
    ownership_release((int)(intptr_t)value);
}
static inline void set_local(void) {
    CHECK_EQ(aw_local_set(&key, (void *)(intptr_t)ownership_token(), release_local), 0);
}

static inline void notify_any(void) {
    int i = (int)any(NOTIFIES);
    if (any(3))
        aw_notify_one(&world.notify[i]);
    else
        aw_notify_waiters(&world.notify[i]);
}

/* ---- Actors ---------------------------------------------------------------------------------- */

enum op {
    SLEEP,
    YIELD,
    SPAWN,
    JOIN_TASK,
    ABORT,
    DETACH,
    TIMEOUT,
    NOTIFIED,
    NOTIFY,
    SEND,
    RECEIVE,
    JOIN,
    TRY_JOIN,
    SELECT,
    ARRAY,
    SET,
    TICK,
    LOCAL,
    FAIL_TASK,
    RETURN,
    OPS
};

/* The next operation of a part. A tired part starts no other parts. */
static inline enum op any_op(bool tired) {
    static const enum op alone[] = {SLEEP,   YIELD, NOTIFIED, NOTIFY,    SEND,
                                    RECEIVE, TICK,  LOCAL,    FAIL_TASK, RETURN};
    return tired ? alone[any(sizeof alone / sizeof *alone)] : (enum op)any(OPS);
}

struct actor {
    AW_FRAME(int);
    int part, depth, parent, argument;
    bool tired;
    int holder, steps, i, where;
    enum op op;
    struct kept kept[KEPT];
    aw_set set;
    bool has_set;
    aw_sleep *crowd;
    aw_task_join_future end;
    aw_interval interval;
    AW_SHARE(aw_sleep sleep; aw_box box; AW_TIMEOUT(aw_box) timeout;
             AW_SELECT(aw_notified, aw_sleep) notified;
             AW_SELECT(aw_oneshot_future, aw_sleep) receive; AW_JOIN(aw_box, aw_sleep, aw_box) join;
             AW_TRY_JOIN(aw_box, aw_box) try; AW_SELECT(aw_box, aw_sleep, aw_box) select;
             aw_all all; aw_set_next_future next; aw_set_clear_future clear;
             aw_task_join_future task_join; aw_tick tick;);
};

static struct actor act(int depth, int parent);

static inline aw_box boxed(int depth, int parent) {
    if (kinds.box && any(3)) return kinds.box(depth - 1, parent);
    return aw_box_new(act(depth - 1, parent));
}
static inline aw_box boxed_in(const struct actor *a) {
    return boxed(a->depth, a->holder);
}
static inline struct kept spawned(void) {
    if (kinds.spawn && any(3)) return kinds.spawn();
    struct actor a = act(DEPTH, 0);
    int part = a.part;
    return (struct kept){AW_TASK(aw_spawn(a)), part};
}

static inline void actor_discard(aw_future *self) {
    release_output(((struct actor *)self)->out);
}

static inline int choose_kept(const struct kept *kept) {
    int i = (int)any(KEPT);
    return kept[i].task ? i : -1;
}
/* Takes the output of a joined task. */
static inline void take_task(struct kept *k, int status) {
    check_joined(*k, status);
    if (status == 0) release_output(*(int *)aw_future_out(k->task));
    aw__task_drop(k->task);
    k->task = NULL;
}

static inline void take_select(struct actor *a) {
    AW_SELECT_EACH(i, &a->select) {
        trace(101, (uint64_t)i);
        if (i != 1) take(i == 0 ? &a->select.f0 : &a->select.f2);
    }
}

/* From here on the part must finish. */
static inline int actor_returns(const struct actor *a, int out) {
    world.parts[a->part].returned = true;
    return out;
}

AW_ASYNC_STATIC(actor, .discard = actor_discard) {
    AW_BEGIN;
    self->holder = ownership_enter(self->parent);
    world.parts[self->part].entered = true;
    for (self->steps = 1 + (int)any(10); self->steps; self->steps--) {
        self->op = any_op(self->tired);
        trace(self->op, aw_current_task_id());
        if (self->op == SLEEP) {
            AW_AWAIT(self->sleep, nap());
        } else if (self->op == YIELD) {
            AW_YIELD;
        } else if (self->op == SPAWN) {
            self->i = (int)any(KEPT);
            if (!self->kept[self->i].task) self->kept[self->i] = spawned();
        } else if (self->op == JOIN_TASK) {
            self->i = choose_kept(self->kept);
            if (self->i < 0) continue;
            AW_AWAIT(self->task_join, aw__task_join(self->kept[self->i].task));
            take_task(&self->kept[self->i], self->task_join.out);
        } else if (self->op == ABORT) {
            self->i = choose_kept(self->kept);
            if (self->i >= 0) task_abort(self->kept[self->i]);
        } else if (self->op == DETACH) {
            self->i = choose_kept(self->kept);
            if (self->i < 0) continue;
            aw__task_drop(self->kept[self->i].task);
            self->kept[self->i].task = NULL;
        } else if (self->op == TIMEOUT) {
            AW_AWAIT_FOR(self->timeout, AW_USEC(any(6) * 300), boxed_in(self));
            trace(104, (uint64_t)-self->timeout.out);
            if (self->timeout.out == 0) take(&self->timeout.inner);
        } else if (self->op == NOTIFIED) {
            AW_AWAIT_SELECT(self->notified, aw_notify_wait(&world.notify[any(NOTIFIES)]), nap());
            trace(105, (uint64_t)self->notified.out);
            if (any(2)) aw_select_drop(&self->notified); /* passes the notification on */
        } else if (self->op == NOTIFY) {
            notify_any();
        } else if (self->op == SEND) {
            send_token();
        } else if (self->op == RECEIVE) {
            self->where = (int)any(CHANNELS);
            if (!receive_begin(self->where)) {
                self->where = 0;
                continue;
            }
            self->where++; /* counted from 1: for the cleanup, 0 means no receive */
            AW_AWAIT_SELECT(self->receive, aw_oneshot_recv(&world.channels[self->where - 1]),
                            nap());
            trace(106, (uint64_t)self->receive.out);
            if (self->receive.out & 1 && self->receive.f0.out == 0) take_message(self->where - 1);
            receive_end(self->where - 1);
            self->where = 0;
        } else if (self->op == JOIN) {
            AW_AWAIT_JOIN(self->join, boxed_in(self), nap(), boxed_in(self));
            take(&self->join.f0);
            take(&self->join.f2);
        } else if (self->op == TRY_JOIN) {
            AW_AWAIT_TRY_JOIN(self->try, boxed_in(self), boxed_in(self));
            trace(107, (uint64_t)-self->try.out);
            if (self->try.out < 0) continue;
            take(&self->try.f0);
            take(&self->try.f1);
        } else if (self->op == SELECT) {
            AW_AWAIT_SELECT(self->select, boxed_in(self), nap(), boxed_in(self));
            take_select(self);
        } else if (self->op == ARRAY) {
            if (self->crowd || any(4)) continue;
            self->crowd = malloc(sizeof(aw_sleep) * CROWD);
            for (int i = 0; i < CROWD; i++)
                self->crowd[i] = nap();
            if (any(2))
                AW_AWAIT(self->all, aw_join_all(self->crowd, CROWD));
            else
                AW_AWAIT(self->all, aw_select_all(self->crowd, CROWD));
            trace(108, (uint64_t)self->all.out);
        } else if (self->op == SET) {
            if (self->has_set) continue;
            aw_set_init(&self->set, sizeof(aw_box));
            self->has_set = true;
            for (self->i = (int)any(4); self->i; self->i--)
                CHECK_EQ(aw_set_push(&self->set, boxed_in(self)), 0);
            for (self->i = (int)any(4); self->i && self->set.count; self->i--) {
                AW_AWAIT(self->next, aw_set_next(&self->set));
                take(AW_SET_AS(aw_box, &self->next));
            }
        } else if (self->op == TICK) {
            CHECK_EQ(aw_interval_every(&self->interval, AW_MSEC(1), (aw_missed)any(3)), 0);
            for (self->i = 3; self->i; self->i--)
                AW_AWAIT(self->tick, aw_interval_tick(&self->interval));
        } else if (self->op == LOCAL) {
            set_local();
        } else if (self->op == FAIL_TASK && any(8) == 0 && aw_current_task_id()) {
            AW_FAIL(-EREMOTEIO);
        } else if (self->op == RETURN) {
            if (any(4) == 0) AW_RETURN(actor_returns(self, -EIO));
            break;
        }
    }
    AW_RETURN(actor_returns(self, ownership_token()));
    AW_FINALLY;
    trace(109, AW_CANCELLING);
    if (self->where) receive_end(self->where - 1);
    if (self->has_set) {
        AW_AWAIT(self->clear, aw_set_clear(&self->set));
        aw_set_free(&self->set);
    }
    for (self->i = 0; self->i < KEPT; self->i++) {
        if (!self->kept[self->i].task) continue;
        if (any(4)) {
            if (any(2)) task_abort(self->kept[self->i]);
            AW_AWAIT(self->end, aw__task_join(self->kept[self->i].task));
            take_task(&self->kept[self->i], self->end.out);
        } else {
            aw__task_drop(self->kept[self->i].task);
        }
    }
    free(self->crowd);
    if (AW_STARTED) {
        ownership_leave(self->holder);
        world.parts[self->part].left = true;
    }
    ownership_release(self->argument);
    AW_END;
}
WATCHED(actor)

static inline bool tired(int depth) {
    return depth <= 0 || ADD(world.actors, 1) >= ACTORS;
}

static struct actor act(int depth, int parent) {
    struct actor a = AW_CALL(actor, .part = part_new(), .argument = ownership_token(),
                             .parent = parent, .depth = depth, .tired = tired(depth));
    a.future.type = &watched_actor;
    return a;
}

/* ---- The program ----------------------------------------------------------------------------- */

/* Pending, and never woken. */
static inline aw_poll stuck(void *arg, aw_cx *cx, int *out) {
    (void)arg;
    (void)cx;
    (void)out;
    return AW_PENDING;
}

struct program {
    AW_FRAME(int);
    bool wait, stuck;
    int i;
    struct kept roots[ROOTS];
    aw_box main;
    aw_poll_fn *lost;
    aw_task_join_future j;
    aw_sleep nap;
};

AW_ASYNC_STATIC(program) {
    AW_BEGIN;
    for (int i = 0; i < ROOTS; i++)
        self->roots[i] = spawned();
    AW_AWAIT(self->main, boxed(DEPTH + 1, 0));
    take(&self->main);
    for (self->i = 0; self->i < ROOTS; self->i++) {
        if (any(2)) task_abort(self->roots[self->i]);
        AW_AWAIT(self->j, aw__task_join(self->roots[self->i].task));
        take_task(&self->roots[self->i], self->j.out);
    }
    while (self->wait && aw_runtime_task_count(world.rt) > kinds.background)
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    if (self->stuck) {
        self->lost = aw_spawn(aw_poll_fn_of(stuck, NULL));
        AW_AWAIT(self->j, aw_task_join(self->lost));
    }
    AW_RETURN(0);
    AW_FINALLY;
    for (int i = 0; i < ROOTS; i++)
        aw__task_drop(self->roots[i].task);
    if (self->lost) aw_task_drop(self->lost);
    AW_END;
}

static inline void problem(void *data, aw_log_level level, const char *message) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)data;
    if (level == AW_LOG_INFO) return;
    pthread_mutex_lock(&lock);
    ADD(world.problems, 1);
    snprintf(world.said, sizeof world.said, "%s", message);
    pthread_mutex_unlock(&lock);
}

/* Ready tasks run in any order. */
static inline uint32_t pick(void *data, uint32_t n) {
    (void)data;
    return (uint32_t)(test_random(&world.order) % n);
}

static inline uint64_t run_once(uint64_t seed) {
    ownership_reset();
    memset(&world, 0, offsetof(__typeof__(world), memory));
    memory_init(&world.memory);
    world.seed = world.random = world.order = seed;
    aw_seam seam = {.self_size = sizeof(aw_seam), .pick = pick};
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.keep_tasks = true;
    if (seed & 4 && !test_on_workers()) options.seam = &seam; /* workers have no order to choose */
    options.paused = true;
    options.seed = seed + 1;
    options.log = problem;
    options.allocator = &world.memory.allocator;
    CHECK_EQ(aw_runtime_new(&world.rt, &options), 0);
    world.begin = aw_now(world.rt);
    if (kinds.begin) kinds.begin();

    /* Some programs contain a deadlock. It is detected only if each earlier wait was removed
     * from the count. It is reported twice: for the stuck task, and for the runtime. */
    bool wait = seed & 1, deadlock = wait && seed & 2 && !kinds.background;
    int error = aw_block_on(world.rt, AW_CALL(program, .wait = wait, .stuck = deadlock));
    int problems = deadlock ? 2 : 0;
    if (error != (deadlock ? -EDEADLK : 0) || LOAD(world.problems) != problems)
        FAIL("program %llu ends with %d: %s", (unsigned long long)seed, error, world.said);
    if (wait && !deadlock) CHECK_EQ(aw_runtime_task_count(world.rt), kinds.background);
    trace(112, 0);
    uint64_t end = world.trace;
    STORE(world.closing, true);
    aw_runtime_free(world.rt);
    world.rt = NULL;

    for (int i = 0; i < CHANNELS; i++) {
        CHECK(!world.receiving[i]);
        CHECK(world.channels[i].channel.receiver == NULL);
        if (aw_oneshot_try_recv(&world.channels[i]) == 0)
            ownership_release(world.channels[i].value);
    }
    for (int i = 0; i < NOTIFIES; i++)
        CHECK(world.notify[i].first == NULL);
    for (int i = 1; i <= world.last_part; i++)
        CHECK(world.parts[i].answer != AW_PENDING);
    if (ownership.inside || ownership.owned || world.memory.blocks || world.problems != problems)
        FAIL("program %llu leaves %d frames, %d tokens, %ld blocks: %s", (unsigned long long)seed,
             ownership.inside, ownership.owned, world.memory.blocks, world.said);
    if (kinds.end) kinds.end();
    return end;
}

#endif
