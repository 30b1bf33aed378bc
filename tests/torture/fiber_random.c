/* SPDX-License-Identifier: MIT
 *
 * Ten thousand random programs with parts of all three kinds, nested in one another: async
 * functions (the actors of support/random_program.h), fibers (players), and leaves that win or lose the
 * race against their cancel. A player awaits any future, at any depth of calls, and checks the
 * result against what became of that future: a join is cut exactly if one of its parts was, a
 * select exactly if all were, and so on. In a shield no await is refused. In the end no stack is in
 * use. */
#include "fiber/stack.h"
#include "support/random_program.h"
#include "support/script.h"

enum { SCRIPTS = 4096, STUBBORN = 3 };

/* The scripts are accessed by their leaves and by strike(), under this lock. */
static pthread_mutex_t scripts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct script scripts[SCRIPTS];
static int used_scripts;

/* Events in all programs, so that a test in which nothing happens fails. */
static struct { long refused, dropped, finished_late, shielded, failed, outran, embedded; } seen;

/* ---- Leaves ---------------------------------------------------------------------------------- */

static struct leaf any_leaf(int parent) {
    uint64_t bits = any(1 << 16);
    pthread_mutex_lock(&scripts_lock);
    struct script *s = &scripts[used_scripts++];
    CHECK_LT(used_scripts, SCRIPTS);
    *s = (struct script){.pends = bits & 3 ? (int)(bits >> 2 & 3) : NEVER,
                         .cancel_pends = (int)(bits >> 4 & 1),
                         .wins = bits >> 5 & 1,
                         .owns = true,
                         .busy = bits & 3 && bits >> 6 & 1, /* else the clock would stop */
                         .busy_cancel = bits >> 7 & 1,
                         .borrows = bits >> 8 & 1,
                         .error = (bits >> 9 & 15) == 0 ? -EIO : 0,
                         .parent = parent,
                         .lock = &scripts_lock};
    struct leaf l = leaf(s);
    pthread_mutex_unlock(&scripts_lock);
    return l;
}

/* Wakes and finishes leaves now and then, as long as there are other tasks. */
struct fate {
    AW_FRAME(int);
    aw_sleep nap;
};

static void strike(void) {
    pthread_mutex_lock(&scripts_lock);
    for (int i = 0; i < used_scripts; i++) {
        struct script *s = &scripts[i];
        if (!s->waker.type || any(2)) continue;
        if (any(4) == 0)
            script_wake(s);
        else if (s->cancels)
            script_finish_cancel(s);
        else
            script_finish(s);
    }
    pthread_mutex_unlock(&scripts_lock);
}

AW_ASYNC_STATIC(fate) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(100 + any(8) * 50)));
        strike();
    }
    AW_FINALLY;
    while (aw_runtime_task_count(world.rt) > 1) {
        AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(200)));
        strike();
    }
    AW_END;
}

static void begin(void) {
    used_scripts = 0;
    aw_task_detach(aw_spawn_on(world.rt, AW_CALL(fate)));
}

static void end(void) {
    for (int i = 0; i < used_scripts; i++)
        CHECK(script_ended(&scripts[i]));
    if (aw__stacks_of_thread) CHECK_EQ(aw__stacks_of_thread->used, 0);
}

/* ---- Players: fibers ------------------------------------------------------------------------- */

struct player {
    AW_FIBER_FRAME(int);
    int part, depth, parent, argument;
    bool tired;
};

static struct player play(int depth, int parent);

static void player_discard(aw_future *self) {
    release_output(((struct player *)self)->out);
}

/* The state of a player, on its stack. */
struct game {
    const struct player *self;
    int holder, stubborn, channel; /* the channel it receives from, counted from 1 */
    struct kept kept[KEPT];
    bool has_set;
    aw_set set;
};

static struct part *me(const struct game *g) {
    return &world.parts[g->self->part];
}

/* Notes that an await was refused. */
static int refused(struct game *g) {
    CHECK(aw_cancelled());
    me(g)->cut = true;
    ADD(seen.refused, 1);
    return -ECANCELED;
}

/* Awaits below some nested calls. Their locals must be intact afterwards. */
static int wait_below(aw_future *f, int depth) {
    volatile uint64_t mine[8];
    uint64_t mark = (uintptr_t)f + (uint64_t)depth;
    for (int i = 0; i < 8; i++)
        mine[i] = mark + (uint64_t)i;
    int error = depth ? wait_below(f, depth - 1) : aw_await_future(f);
    for (int i = 0; i < 8; i++)
        CHECK(mine[i] == mark + (uint64_t)i);
    return error;
}

static int wait(struct game *g, aw_future *f) {
    int error = wait_below(f, (int)any(4));
    CHECK(error == 0 || error == -ECANCELED);
    if (!error && aw_cancelled()) ADD(seen.finished_late, 1);
    return error ? refused(g) : 0;
}
#define WAIT(g, f) wait((g), &(f).future)

/* The content of a box, to be inspected after the box is freed. */
struct boxed {
    int part;
    const struct script *script;
};
struct carrier;
static int carrier_part(const aw_future *f);

static struct boxed look(const aw_box *b) {
    const aw_future *f = b->inner;
    if (f->type == &leaf_type)
        return (struct boxed){0, ((const struct leaf *)(const void *)f)->script};
    if (f->type == &watched_actor)
        return (struct boxed){((const struct actor *)(const void *)f)->part, NULL};
    if (f->type->poll == aw_type_actor.poll) FAIL("not watched");
    return (struct boxed){carrier_part(f), NULL};
}
static aw_poll answer(struct boxed b) {
    if (!b.script) return world.parts[b.part].answer;
    return b.script->finished ? AW_READY : b.script->cancelled ? AW_CANCELLED : AW_PENDING;
}
static int how_many(const struct boxed *b, int n, aw_poll which) {
    int count = 0;
    for (int i = 0; i < n; i++)
        count += answer(b[i]) == which;
    return count;
}

typedef AW_JOIN(aw_box, aw_box, struct leaf) some_join;
typedef AW_TRY_JOIN(aw_box, aw_box) some_try;
typedef AW_SELECT(aw_box, aw_sleep, aw_box) some_select;
typedef AW_TIMEOUT(aw_box) some_timeout;
typedef AW_SELECT(aw_notified, aw_sleep) some_notified;
typedef AW_SELECT(aw_oneshot_future, aw_sleep) some_receive;

static aw_box box_in(const struct game *g) {
    return boxed(g->self->depth, g->holder);
}

static int play_box(struct game *g) {
    aw_box b = box_in(g);
    struct boxed inner = look(&b);
    int error = WAIT(g, b);
    CHECK_EQ(answer(inner), error ? AW_CANCELLED : AW_READY);
    if (!error) take(&b);
    return error;
}

static int play_timeout(struct game *g) {
    some_timeout t = AW_TIMEOUT_OF(some_timeout, AW_USEC(any(6) * 300), box_in(g));
    struct boxed inner = look(&t.inner);
    int error = WAIT(g, t);
    trace(104, (uint64_t)-t.out);
    CHECK_EQ(answer(inner), error || t.out ? AW_CANCELLED : AW_READY);
    CHECK(t.out == 0 || t.out == -ETIMEDOUT);
    if (!error && !t.out) take(&t.inner);
    return error;
}

static int play_join(struct game *g) {
    some_join j = AW_JOIN_OF(some_join, box_in(g), box_in(g), any_leaf(g->holder));
    struct boxed parts[] = {look(&j.f0), look(&j.f1), {0, j.f2.script}};
    int error = WAIT(g, j);
    CHECK_EQ(how_many(parts, 3, AW_PENDING), 0);
    CHECK_EQ(how_many(parts, 3, AW_CANCELLED) > 0, error != 0);
    if (error) return error;
    take(&j.f0);
    take(&j.f1);
    release_output(j.f2.out);
    return 0;
}

static int play_try_join(struct game *g) {
    some_try t = AW_TRY_JOIN_OF(some_try, box_in(g), box_in(g));
    struct boxed parts[] = {look(&t.f0), look(&t.f1)};
    int error = WAIT(g, t);
    trace(107, (uint64_t)-t.out);
    CHECK_EQ(how_many(parts, 2, AW_PENDING), 0);
    if (error) {
        CHECK_GT(how_many(parts, 2, AW_CANCELLED), 0);
    } else if (t.out == 0) {
        CHECK_EQ(how_many(parts, 2, AW_READY), 2);
        take(&t.f0);
        take(&t.f1);
    } else {
        CHECK_GT(how_many(parts, 2, AW_READY), 0);
    }
    return error;
}

static int play_select(struct game *g) {
    some_select s = AW_SELECT_OF(some_select, box_in(g), nap(), box_in(g));
    struct boxed parts[] = {look(&s.f0), look(&s.f2)};
    int error = WAIT(g, s);
    CHECK_EQ(how_many(parts, 2, AW_PENDING), 0);
    if (error) {
        CHECK_EQ(how_many(parts, 2, AW_CANCELLED), 2);
        return error;
    }
    CHECK_EQ(answer(parts[0]), s.out & 1 ? AW_READY : AW_CANCELLED);
    CHECK_EQ(answer(parts[1]), s.out & 4 ? AW_READY : AW_CANCELLED);
    ADD(seen.outran, s.out == 5);
    if (any(4) == 0) {
        aw_select_drop(&s);
        return 0;
    }
    AW_SELECT_EACH(i, &s) {
        trace(101, (uint64_t)i);
        if (i != 1) take(i == 0 ? &s.f0 : &s.f2);
    }
    return 0;
}

/* By value, on the stack of this player. */
static int play_player(struct game *g) {
    struct player p = play(g->self->depth - 1, g->holder);
    const struct part *part = &world.parts[p.part];
    bool timed = any(2);
    int out = timed ? aw_await_for(AW_USEC(any(6) * 300), p) : aw_await(p);
    if (out == -ECANCELED) {
        CHECK_EQ(part->answer, AW_CANCELLED);
        return refused(g);
    }
    CHECK_EQ(part->answer, timed && out == -ETIMEDOUT ? AW_CANCELLED : AW_READY);
    release_output(out);
    return 0;
}
static int play_actor(struct game *g) {
    struct actor a = act(g->self->depth - 1, g->holder);
    const struct part *part = &world.parts[a.part];
    int out = 0, error = any(2) ? aw_await_into(&out, a) : aw_await_status(a);
    CHECK_EQ(part->answer, error ? AW_CANCELLED : AW_READY);
    if (error) return refused(g);
    release_output(out);
    return 0;
}

static int play_set(struct game *g) {
    if (g->has_set) return 0;
    aw_set_init(&g->set, sizeof(aw_box));
    g->has_set = true;
    for (int i = (int)any(4); i; i--)
        CHECK_EQ(aw_set_push(&g->set, box_in(g)), 0);
    for (int i = (int)any(4); i && g->set.count; i--) {
        aw_set_next_future next = aw_set_next(&g->set);
        if (WAIT(g, next)) return -ECANCELED;
        take(AW_SET_AS(aw_box, &next));
    }
    return 0;
}

static int play_array(struct game *g) {
    if (any(4)) return 0;
    aw_sleep crowd[CROWD];
    for (int i = 0; i < CROWD; i++)
        crowd[i] = nap();
    aw_all all = any(2) ? aw_join_all(crowd, CROWD) : aw_select_all(crowd, CROWD);
    int error = WAIT(g, all);
    trace(108, (uint64_t)all.out);
    return error;
}

static int play_receive(struct game *g) {
    int c = (int)any(CHANNELS);
    if (!receive_begin(c)) return 0;
    g->channel = c + 1;
    some_receive r = AW_SELECT_OF(some_receive, aw_oneshot_recv(&world.channels[c]), nap());
    int error = WAIT(g, r);
    trace(106, (uint64_t)r.out);
    if (!error && r.out & 1 && r.f0.out == 0) take_message(c);
    receive_end(c);
    g->channel = 0;
    return error;
}

static int play_notified(struct game *g) {
    some_notified n = AW_SELECT_OF(some_notified, aw_notify_wait(&world.notify[any(NOTIFIES)]),
                                   nap());
    int error = WAIT(g, n);
    trace(105, (uint64_t)n.out);
    if (!error && any(2)) aw_select_drop(&n); /* passes the notification on */
    return error;
}

static int play_ticks(struct game *g) {
    aw_interval interval;
    CHECK_EQ(aw_interval_every(&interval, AW_MSEC(1), (aw_missed)any(3)), 0);
    for (int i = 0; i < 3; i++) {
        aw_tick tick = aw_interval_tick(&interval);
        if (WAIT(g, tick)) return -ECANCELED;
    }
    return 0;
}

static int play_join_task(struct game *g) {
    int i = choose_kept(g->kept);
    if (i < 0) return 0;
    aw_task_join_future j = aw__task_join(g->kept[i].task);
    if (WAIT(g, j)) return -ECANCELED;
    take_task(&g->kept[i], j.out);
    return 0;
}

/* Nothing in the shield is refused. */
static void play_shielded(struct game *g) {
    AW_SHIELD {
        struct leaf l = any_leaf(g->holder);
        ADD(seen.shielded, aw_cancelled());
        CHECK_EQ(wait_below(&l.future, (int)any(3)), 0);
        release_output(l.out);
        if (any(4) == 0) break;
        AW_SHIELD CHECK_EQ(aw_await(nap()), 0);
        CHECK_EQ(aw_fiber_yield(), 0);
    }
}

/* Runs one operation. Returns 0, or -ECANCELED if an await was refused. */
static int play_op(struct game *g, enum op op) {
    int i;
    switch (op) {
    case SLEEP: return aw_await(nap()) ? refused(g) : 0;
    case YIELD: return aw_fiber_yield() ? refused(g) : 0;
    case SPAWN:
        if (!g->kept[i = (int)any(KEPT)].task) g->kept[i] = spawned();
        return 0;
    case JOIN_TASK: return play_join_task(g);
    case ABORT:
        if ((i = choose_kept(g->kept)) >= 0) task_abort(g->kept[i]);
        return 0;
    case DETACH:
        if ((i = choose_kept(g->kept)) < 0) return 0;
        aw__task_drop(g->kept[i].task);
        g->kept[i].task = NULL;
        return 0;
    case TIMEOUT: return play_timeout(g);
    case NOTIFIED: return play_notified(g);
    case NOTIFY: notify_any(); return 0;
    case SEND: send_token(); return 0;
    case RECEIVE: return play_receive(g);
    case JOIN: return play_join(g);
    case TRY_JOIN: return play_try_join(g);
    case SELECT: return play_select(g);
    case ARRAY: return play_array(g);
    case SET: return play_set(g);
    case TICK: return play_ticks(g);
    case LOCAL: set_local(); return 0;
    case FAIL_TASK:
        if (any(8) || !aw_current_task_id()) {
            play_shielded(g);
            return 0;
        }
        ADD(seen.failed, 1);
        CHECK_EQ(aw_fiber_fail(-EREMOTEIO), -ECANCELED);
        return refused(g);
    default: break;
    }
    struct leaf l = any_leaf(g->holder);
    /* Polled before it is awaited, the leaf may win the race against the first cancel. */
    bool ready = any(2) && aw_future_poll(&l.future, aw_fiber_cx()) == AW_READY;
    int error = ready ? 0 : WAIT(g, l);
    CHECK_EQ(l.script->finished, error == 0);
    if (!error) release_output(l.out);
    return error;
}

/* Releases, in a shield, what the player still has. */
static void clear_away(struct game *g) {
    AW_SHIELD {
        if (g->has_set) {
            CHECK_EQ(aw_await(aw_set_clear(&g->set)), 0);
            aw_set_free(&g->set);
        }
        for (int i = 0; i < KEPT; i++) {
            if (!g->kept[i].task) continue;
            if (any(4) == 0) {
                aw__task_drop(g->kept[i].task);
                continue;
            }
            if (any(2)) task_abort(g->kept[i]);
            aw_task_join_future j = aw__task_join(g->kept[i].task);
            CHECK_EQ(aw_await_future(&j.future), 0);
            take_task(&g->kept[i], j.out);
        }
    }
    if (any(4) == 0) play_shielded(g);
}

AW_FIBER_STATIC(player, .discard = player_discard) {
    struct game g = {.self = self, .holder = ownership_enter(self->parent), .stubborn = STUBBORN};
    me(&g)->entered = true;
    int out = 0;
    for (int steps = 1 + (int)any(10); steps; steps--) {
        enum op op = any_op(self->tired);
        trace(op + 200, aw_current_task_id());
        int error = op == RETURN || self->tired || any(4) ? play_op(&g, op)
                    : any(3) == 0                         ? play_box(&g)
                    : any(2)                              ? play_player(&g)
                                                          : play_actor(&g);
        CHECK(aw_fiber_cx() != NULL);
        if (error && (any(2) || g.stubborn-- == 0)) break;
        if (op == RETURN) {
            if (any(4) == 0) out = -EIO;
            break;
        }
    }
    clear_away(&g);
    trace(209, aw_cancelled());
    ownership_leave(g.holder);
    ownership_release(self->argument);
    me(&g)->returned = me(&g)->left = true;
    return out ? out : ownership_token();
}
AW_FIBER_DROP(player) {
    ADD(seen.dropped, 1);
    ownership_release(self->argument);
}
WATCHED(player)

static struct player play(int depth, int parent) {
    struct player p = AW_CALL(player, .stack_size = any(4) ? 0 : 32768, .part = part_new(),
                              .argument = ownership_token(), .parent = parent, .depth = depth,
                              .tired = tired(depth));
    p.future.type = &watched_player;
    return p;
}

/* ---- Carriers: async functions with fibers in their frames ----------------------------------- */

struct carrier {
    AW_FRAME(int);
    int part, depth, parent, argument, holder;
    struct leaf cleanup;
    AW_SHARE(struct player player; AW_TIMEOUT(struct player) timeout;
             AW_JOIN(struct player, struct leaf) join;);
};

static void carrier_discard(aw_future *self) {
    release_output(((struct carrier *)self)->out);
}
static int carrier_returns(const struct carrier *c, int out) {
    world.parts[c->part].returned = true;
    ADD(seen.embedded, 1);
    return out;
}

AW_ASYNC_STATIC(carrier, .discard = carrier_discard) {
    AW_BEGIN;
    self->holder = ownership_enter(self->parent);
    world.parts[self->part].entered = true;
    if (any(3) == 0) {
        AW_AWAIT(self->player, play(self->depth - 1, self->holder));
        AW_RETURN(carrier_returns(self, self->player.out));
    } else if (any(2)) {
        AW_AWAIT_FOR(self->timeout, AW_USEC(any(6) * 300), play(self->depth - 1, self->holder));
        if (self->timeout.out) AW_RETURN(carrier_returns(self, -EIO));
        AW_RETURN(carrier_returns(self, self->timeout.inner.out));
    }
    AW_AWAIT_JOIN(self->join, play(self->depth - 1, self->holder), any_leaf(self->holder));
    release_output(self->join.f1.out);
    AW_RETURN(carrier_returns(self, self->join.f0.out));
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->cleanup, any_leaf(self->holder));
        release_output(self->cleanup.out);
        ownership_leave(self->holder);
        world.parts[self->part].left = true;
    }
    ownership_release(self->argument);
    AW_END;
}
WATCHED(carrier)

static struct carrier new_carrier(int depth, int parent) {
    struct carrier c = AW_CALL(carrier, .part = part_new(), .argument = ownership_token(),
                               .parent = parent, .depth = depth);
    c.future.type = &watched_carrier;
    return c;
}

static int carrier_part(const aw_future *f) {
    if (f->type == &watched_carrier) return ((const struct carrier *)(const void *)f)->part;
    CHECK(f->type == &watched_player);
    return ((const struct player *)(const void *)f)->part;
}

/* ---- Programs -------------------------------------------------------------------------------- */

static aw_box mixed_box(int depth, int parent) {
    uint64_t kind = any(4);
    if (kind == 0) return aw_box_new(any_leaf(parent));
    if (kind == 1 && depth > 0) return aw_box_new(new_carrier(depth, parent));
    return aw_box_new(play(depth, parent));
}

static struct kept mixed_spawn(void) {
    if (any(4) == 0) {
        struct carrier c = new_carrier(DEPTH, 0);
        int part = c.part;
        return (struct kept){AW_TASK(aw_spawn(c)), part};
    }
    struct player p = play(DEPTH, 0);
    int part = p.part;
    return (struct kept){AW_TASK(aw_spawn(p)), part};
}

static void run_seeds(uint64_t first) {
    int n = test_scale(1000);
    if (test_on_workers() && n > 300) n = 300; /* each starts and ends threads and stacks */
    kinds = (struct kinds){mixed_box, mixed_spawn, begin, end, 1};
    for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) {
        uint64_t trace = run_once(seed);
        if (seed % 8 == 0 && !test_on_workers() && trace != run_once(seed))
            FAIL("program %llu: two runs differ", (unsigned long long)seed);
    }
    CHECK_GT(seen.refused, n);
    CHECK_GT(seen.dropped, n / 100);
    CHECK_GT(seen.finished_late, n / 100);
    CHECK_GT(seen.shielded, n / 100);
    CHECK_GT(seen.failed, n / 100);
    CHECK_GT(seen.outran, n / 100);
    CHECK_GT(seen.embedded, n / 100);
    aw_stacks_trim();
    CHECK(aw__stacks_of_thread == NULL);
}

#define PROGRAMS(n)                                                                                \
    TEST(a_thousand_random_programs_of_all_kinds_end_balanced_##n) {                               \
        run_seeds(n##000);                                                                         \
    }
PROGRAMS(1)
PROGRAMS(2)
PROGRAMS(3)
PROGRAMS(4)
PROGRAMS(5)
PROGRAMS(6)
PROGRAMS(7)
PROGRAMS(8)
PROGRAMS(9)

TEST(a_thousand_programs_of_all_kinds_of_a_random_seed_end_balanced) {
    run_seeds(test_seed() * 1000000);
}
