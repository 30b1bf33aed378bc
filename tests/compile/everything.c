// Everything in the headers, in strict C11, without a warning. (examples/ and the unit tests run
// it.)
// MUST COMPILE
// flags: -Wpedantic -Werror -Wshadow -Wstrict-prototypes
#include <awake.h>

#include <errno.h>

struct point {
    double x, y;
};

/* ---- Async functions: every way to define one, every output ---- */

AW_ASYNC(int, bare) {
    AW_BEGIN;
    AW_RETURN(1);
    AW_END;
}

AW_ASYNC(void, nothing, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN_VOID;
    AW_END;
}

AW_ASYNC(void, falls_off_the_end, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_END;
}

AW_ASYNC(char *, pointer, char *text;) {
    AW_BEGIN;
    AW_RETURN(self->text);
    AW_END;
}

AW_ASYNC(struct point, structure, double x, y;) {
    AW_BEGIN;
    AW_RETURN((struct point){.x = self->x, .y = self->y});
    AW_END;
}

AW_ASYNC(double, commas, int a, b, c, d, e, f, g, h; int i, j, k, l, m, n, o, p; char q[2][3], r, s;) {
    AW_BEGIN;
    AW_RETURN(self->a + self->h + self->p + self->q[1][2] + self->s);
    AW_END;
}

/* As in a header. */
struct split {
    AW_FRAME(long);
    int n;
    aw_sleep nap;
};
AW_ASYNC_DECL(split);
#define split(...) AW_CALL(split, __VA_ARGS__)

AW_ASYNC_DEF(split) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    AW_RETURN(self->n);
    AW_END;
}

static void drop_point(aw_future *f) {
    (void)f;
}

struct owner {
    AW_FRAME(struct point);
    int n;
};
AW_ASYNC_STATIC(owner, .discard = drop_point) {
    AW_BEGIN;
    AW_RETURN((struct point){0, 0});
    AW_END;
}

/* ---- Every part of a body, awaits in every kind of branch and loop ---- */

static aw_poll answer(void *arg, aw_cx *cx, int *out) {
    (void)arg;
    (void)cx;
    *out = 42;
    return AW_READY;
}

AW_ASYNC(int, body, int n; int i; aw_yield pause; struct split kept; aw_poll_fn fn;
         AW_SHARE(struct bare a; struct nothing b; struct pointer c; struct structure d;);) {
    AW_BEGIN;
    self->kept = split(.n = 1);
    AW_AWAIT_FUTURE(self->kept);
    if (self->n == 0) {
        AW_AWAIT(self->a, AW_CALL(bare));
    } else if (self->n == 1) {
        AW_AWAIT(self->b, AW_CALL(nothing));
    } else
        AW_YIELD;
    for (self->i = 0; self->i < self->n; self->i++) AW_AWAIT(self->pause, aw_yield_now());
    while (self->i-- > 0) {
        AW_AWAIT(self->c, AW_CALL(pointer, .text = NULL));
        if (self->c.out) continue;
        if (AW_CANCELLING) break;
    }
    do {
        AW_AWAIT(self->d, AW_CALL(structure, 1, .y = 2));
    } while (self->d.out.x > 5);
    AW_AWAIT(self->fn, aw_poll_fn_of(answer, NULL));
    switch (self->n) {
    case 1: self->n = 2; break;
    default: break;
    }
    {
        int local = self->fn.out;
        self->n += local;
    }
    if (self->n > 100) AW_RETURN(1);
    if (self->n > 99) AW_FAIL(-EIO);
    AW_RETURN(self->n);
    AW_FINALLY;
    if (AW_STARTED) AW_AWAIT(self->pause, aw_yield_now());
    for (int i = 0; i < 3; i++) self->n += i;
    AW_END;
}

/* ---- Groups, timeouts, boxes, arrays, sets ---- */

AW_ASYNC(int, combined, AW_JOIN(struct bare, aw_yield, struct split) j; AW_TRY_JOIN(struct bare, struct body) t;
         AW_SELECT(aw_sleep, struct pointer) s; aw_group g; struct bare a; aw_yield b;
         AW_TIMEOUT(struct split) limit; aw_box box; struct bare jobs[4]; aw_all all; int best;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->j, AW_CALL(bare), aw_yield_now(), split(.n = 3));
    AW_AWAIT_TRY_JOIN(self->t, AW_CALL(bare), AW_CALL(body, .n = 3));
    AW_AWAIT_SELECT(self->s, aw_sleep_for(AW_SEC(1)), AW_CALL(pointer, .text = NULL));
    AW_SELECT_EACH(i, &self->s) self->best = i;
    AW_AWAIT_SELECT_BIASED(self->s, aw_sleep_for(AW_SEC(1)), AW_CALL(pointer, .text = NULL));
    self->best = aw_select_winner(&self->s);
    self->a = AW_CALL(bare);
    self->b = aw_yield_now();
    AW_AWAIT(self->g, aw_join_refs(&self->a, &self->b));
    AW_AWAIT_FOR(self->limit, AW_SEC(3), split(.n = 4));
    AW_AWAIT_BY(self->limit, AW_SEC(3), split(.n = 4));
    AW_AWAIT(self->box, aw_box_new(split(.n = 5)));
    if (self->box.out == 0) self->best += (int)aw_box_take(struct split, &self->box);
    for (int i = 0; i < 4; i++) self->jobs[i] = AW_CALL(bare);
    AW_AWAIT(self->all, aw_join_all(self->jobs, 4));
    AW_RETURN(self->best);
    AW_END;
}

AW_ASYNC(long, recursive, int n; aw_box rest;) {
    AW_BEGIN;
    if (self->n == 0) AW_RETURN(0);
    AW_AWAIT(self->rest, aw_box_new(AW_CALL(recursive, .n = self->n - 1)));
    if (self->rest.out < 0) AW_RETURN(self->rest.out);
    AW_RETURN(self->n + aw_box_take(struct recursive, &self->rest));
    AW_END;
}

AW_ASYNC(int, many, aw_set set; aw_set_next_future next; aw_set_clear_future clear; int sum;) {
    AW_BEGIN;
    aw_set_init(&self->set, sizeof(struct bare));
    if (aw_set_push(&self->set, AW_CALL(bare)) < 0) AW_RETURN(-ENOMEM);
    while (self->set.count) {
        AW_AWAIT(self->next, aw_set_next(&self->set));
        self->sum += AW_SET_AS(struct bare, &self->next)->out;
    }
    AW_RETURN(self->sum);
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->clear, aw_set_clear(&self->set));
        aw_set_free(&self->set);
    }
    AW_END;
}

/* ---- Tasks, time, sync ---- */

static AW_TASK_STORAGE(struct bare) room;
static aw_notify notify = AW_NOTIFY_INIT;
static AW_ONESHOT(int) reply = AW_ONESHOT_INIT;
static aw_local key;

AW_ASYNC(int, tasks, struct body *a; struct pointer *b; struct bare *c; aw_task_join_future join; aw_notified wait;
         aw_oneshot_future recv; aw_interval every; aw_tick tick;) {
    AW_BEGIN;
    self->a = aw_spawn(AW_CALL(body, .n = 3));
    self->b = aw_spawn_named("b", AW_CALL(pointer, .text = NULL));
    self->c = aw_spawn_in(&room, AW_CALL(bare));
    AW_AWAIT(self->join, aw_task_join(self->a));
    if (self->join.out == 0) self->every.period = (uint64_t)self->a->out;
    aw_task_drop(self->a);
    aw_task_abort(self->b);
    AW_AWAIT(self->join, aw_task_join(self->b));
    if (self->join.out == 0 && aw_task_take(self->b)) AW_RETURN(1);
    if (aw_task_is_finished(self->c) || aw_task_id(self->c) == 0 || !aw_task_name(self->c)) AW_YIELD;
    aw_task_drop(self->c);
    aw_notify_one(&notify);
    AW_AWAIT(self->wait, aw_notify_wait(&notify));
    if (aw_oneshot_send(&reply, 3) < 0) AW_RETURN(2);
    AW_AWAIT(self->recv, aw_oneshot_recv(&reply));
    if (aw_interval_every(&self->every, AW_SEC(1), AW_BURST) < 0) AW_RETURN(3);
    AW_AWAIT(self->tick, aw_interval_tick(&self->every));
    if (aw_local_set(&key, self, NULL) < 0 || aw_local_get(&key) != self) AW_RETURN(-ENXIO);
    AW_RETURN(aw_unbudgeted(cx, true));
    AW_END;
}

int main(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.hooks = &(aw_hooks){.self_size = sizeof(aw_hooks)};
    if (aw_runtime_new(&rt, &options) < 0) return 1;
    aw_task_drop(aw_spawn_at(rt, 0, AW_CALL(bare)));
    aw_worker_counters counters;
    if (aw_runtime_counters(rt, 0, &counters) == 0) return 1;
    struct point p = {0, 0};
    typedef AW_JOIN(struct bare, struct split) pair;
    typedef AW_TIMEOUT(struct split) limited;
    double d = 0;
    int n = aw_block_on(rt, AW_CALL(body, .n = 1)) + aw_block_on(rt, AW_CALL(combined)) +
            aw_block_on(rt, AW_CALL(tasks)) + aw_block_on(rt, AW_CALL(many));
    n += (int)aw_block_on(rt, AW_CALL(recursive, .n = 3)) + (int)aw_block_on(rt, split(.n = 1));
    n += aw_block_on_into(rt, &p, AW_CALL(owner, .n = 1)) + aw_block_on_into(rt, &d, AW_CALL(commas, 1, .s = 2));
    n += aw_block_on_status(rt, AW_CALL(nothing)) + aw_block_on_status(rt, AW_CALL(falls_off_the_end));
    n += aw_block_on(rt, AW_JOIN_OF(pair, AW_CALL(bare), split(.n = 2)));
    n += aw_block_on(rt, AW_TIMEOUT_OF(limited, AW_SEC(1), split(.n = 2)));
    aw_runtime_free(rt);
    aw_run_into(&d, AW_CALL(commas));
    aw_run_status(AW_CALL(bare));
    return n + (int)aw_run(split(.n = 3)) + aw_run(AW_CALL(bare)) + (int)d + (int)p.x;
}
