// A program that uses everything about fibers in C, without a warning.
// MUST COMPILE
// flags: -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
#include <awake.h>

#include <errno.h>

/* Declared in a header. */
struct split {
    AW_FIBER_FRAME(long);
    int n;
};
AW_FIBER_DECL(split);
AW_FIBER_DEF(split) {
    return self->n;
}

struct point {
    double x, y;
};

struct owner {
    AW_FIBER_FRAME(struct point);
    int fd;
};
static void owner_discard(aw_future *self) {
    ((struct owner *)self)->out.x = 0;
}
AW_FIBER_STATIC(owner, .discard = owner_discard) {
    return (struct point){self->fd, 1};
}
AW_FIBER_DROP(owner) {
    self->fd = -1;
}

AW_FIBER(int, bare) {
    return 1;
}
AW_FIBER(void, nothing) {
    if (aw_fiber_yield() < 0) return;
    aw_fiber_yield();
}
AW_FIBER(const char *, text, int n;) {
    return self->n ? "one" : 0;
}
AW_FIBER(signed char, tiny) {
    return 1;
}

/* Recursion, each time on another stack. */
AW_FIBER(long, factorial, int n;) {
    if (self->n < 2) return 1;
    long rest = aw_await(AW_CALL(factorial, .n = self->n - 1));
    return rest < 0 ? rest : self->n * rest;
}

AW_ASYNC(int, async, struct bare bare; struct factorial f;) {
    AW_BEGIN;
    AW_AWAIT(self->bare, AW_CALL(bare));
    AW_AWAIT(self->f, AW_CALL(factorial, .n = 3));
    AW_RETURN(self->bare.out);
    AW_END;
}

static long anywhere(int depth) {
    return depth ? anywhere(depth - 1) : aw_await(AW_CALL(split, .n = depth));
}

AW_FIBER(int, body, int a, b; const char *name;) {
    int sum = aw_await(AW_CALL(bare)) + aw_await(AW_CALL(tiny)) + aw_await(AW_CALL(async));
    long n = aw_await(AW_CALL(split, .n = 3, .stack_size = 65536));
    n = aw_await_for(AW_SEC(1), AW_CALL(split, .n = 4));
    n += aw_await_by(AW_SEC(1), AW_CALL(split, .n = 4));
    n += anywhere(3);
    const char *t = self->name;
    struct point p = {0, 0};
    int error = aw_await_into(&t, AW_CALL(text, .n = 1));
    error = aw_await_into(&p, AW_CALL(owner, .fd = 3));
    error = aw_await_into_for(AW_SEC(1), &p, AW_CALL(owner, .fd = 3));
    error = aw_await_into_by(AW_SEC(1), &t, AW_CALL(text));
    error = aw_await_status(AW_CALL(nothing));
    aw_await_status(AW_CALL(owner));
    struct bare later = AW_CALL(bare);
    error = aw_await_future(&later.future);
    if (error == -ECANCELED && aw_cancelled()) {
        AW_SHIELD {
            aw_await(aw_sleep_for(1));
            AW_SHIELD aw_await(aw_sleep_for(1));
        }
    }
    struct split *task = aw_spawn(AW_CALL(split, .n = 5));
    if (aw_await(aw_task_join(task)) == 0) n += aw_task_take(task);
    return error < 0 ? aw_fiber_fail(-EIO) : sum + (int)n + (int)p.x + (t != 0);
}

static int plain(void *arg) {
    return *(int *)arg + aw_fiber_yield();
}
static void plain_drop(void *arg) {
    *(int *)arg = 0;
}

int main(void) {
    int n = 3;
    struct point p = {0, 0};
    aw_fiber_measure(true);
    if (aw_stack_overflow(AW_OVERFLOW_REPORT) < 0) return 1;
    n += aw_run(AW_CALL(body, .a = 1, .name = "body")) + aw_run(aw_fiber_of(plain, &n));
    n += aw_run(aw_fiber_with(plain, plain_drop, &n, 65536));
    n += aw_run_into(&p, AW_CALL(owner)) + aw_run_status(AW_CALL(nothing));
    aw_stacks_trim();
    return n + (AW_FIBER_HIGH_WATER(body) > 0) + (int)p.x;
}
