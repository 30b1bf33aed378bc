// What a C++ program can use: everything but async functions, without a warning.
// MUST COMPILE
// lang: c++
// flags: -Wpedantic -Werror
#include <awake.h>

#include <cerrno>

/* Async functions in C, declared in a header that both include. */
struct fetch {
    AW_FRAME(long);
    int n;
    AW_SHARE(aw_sleep nap; aw_yield pause;);
};
struct forget {
    AW_FRAME(void);
};
AW_ASYNC_DECL(fetch);
AW_ASYNC_DECL(forget);

namespace {

/* A hand-written future. */
struct countdown {
    aw_future future;
    int out;
    int left;
};

aw_poll countdown_poll(aw_future *self, aw_cx *cx) {
    countdown *c = reinterpret_cast<countdown *>(self);
    if (c->left == 0) return AW_READY;
    c->left--;
    aw_cx_yield(cx);
    return AW_PENDING;
}

aw_future_type make_countdown_type() {
    aw_future_type type = {};
    type.self_size = sizeof type;
    type.name = "countdown";
    type.size = sizeof(countdown);
    type.out_offset = offsetof(countdown, out);
    type.out_size = sizeof(int);
    type.flags = AW_OUT_ERRNO | AW_UNPIN;
    type.poll = countdown_poll;
    return type;
}

const aw_future_type countdown_type = make_countdown_type();

countdown count_from(int n) {
    return countdown{AW_FUTURE_INIT(&countdown_type), 0, n};
}

aw_poll answer(void *arg, aw_cx *, int *out) {
    *out = *static_cast<int *>(arg);
    return AW_READY;
}

void on_wake(aw_counted *) {}
void on_release(aw_counted *) {}

int wakers() {
    aw_waker noop = aw_noop_waker(), slot = {nullptr, nullptr};
    aw_flag flag = {0};
    aw_waker raise = aw_flag_waker(&flag);
    aw_waker_set(&slot, &raise);
    aw_waker_wake(aw_waker_take(&slot));
    aw_counted counted;
    aw_counted_init(&counted, on_wake, on_release);
    aw_waker object = aw_counted_waker(&counted), clone = aw_waker_clone(&object);
    bool same = aw_waker_will_wake(&object, &clone) && !aw_waker_will_wake(&object, &noop);
    aw_waker_drop(clone);
    aw_counted_drop(&counted);
    return aw_flag_take(&flag) && same ? 0 : -EINVAL;
}

/* The program's own event loop. */
int poll_loop() {
    aw_parker *parker = aw_parker_new();
    if (!parker) return -ENOMEM;
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&waker);
    countdown c = count_from(3);
    while (aw_future_poll(&c.future, &cx) == AW_PENDING) aw_parker_park(parker);
    aw_never never = aw_never_ready();
    if (aw_future_poll(&never.future, &cx) != AW_PENDING) return -EINVAL;
    if (aw_future_cancel(&never.future, &cx) != AW_CANCELLED) return -EINVAL;
    aw_parker_free(parker);
    return *static_cast<int *>(aw_future_out(&c.future));
}

int leaves(aw_runtime *rt) {
    int n = 3, taken = 0;
    void *pointer = nullptr;
    n += aw_block_on(rt, aw_ready_now(1));
    n += aw_block_on(rt, aw_yield_now());
    n += aw_block_on(rt, aw_sleep_for(AW_MSEC(1)));
    n += aw_block_on(rt, aw_sleep_until(aw_now(rt)));
    n += aw_block_on(rt, aw_poll_fn_of(answer, &n));
    n += aw_block_on_into(rt, &pointer, aw_ready_pointer(&n));
    n += aw_block_on_status(rt, count_from(2));
    aw_notify notify = AW_NOTIFY_INIT;
    aw_notify_one(&notify);
    n += aw_block_on(rt, aw_notify_wait(&notify));
    aw_interval every;
    if (aw_interval_every(&every, AW_MSEC(1), AW_SKIP) == 0) n += aw_block_on(rt, aw_interval_tick(&every));
    AW_ONESHOT(int) reply = AW_ONESHOT_INIT;
    n += aw_oneshot_send(&reply, 42);
    n += aw_block_on(rt, aw_oneshot_recv(&reply));
    aw_box box = aw_box_new(count_from(1));
    n += aw_block_on_future(rt, &box.future);
    taken = aw_box_take(countdown, &box);
    return n + taken;
}

int tasks(aw_runtime *rt) {
    countdown *a = aw_spawn_on(rt, count_from(3));
    aw_sleep *b = aw_spawn_on(rt, aw_sleep_for(AW_SEC(10)));
    static AW_TASK_STORAGE(countdown) room;
    aw_runtime *before = aw_enter(rt);
    countdown *c = aw_spawn_in(&room, count_from(1));
    countdown *d = aw_spawn_named("four", count_from(4));
    countdown *e = aw_spawn(count_from(5));
    aw_task_drop(aw_spawn_at(rt, 0, count_from(6)));
    aw_leave(before);
    int status = aw_block_on(rt, aw_task_join(a));
    int n = aw_task_take(a);
    aw_task_abort(b);
    status += aw_block_on(rt, aw_task_join(b)) == -ECANCELED ? 0 : -1;
    aw_task_drop(b);
    aw_task_drop(c);
    aw_task_drop(d);
    aw_task_drop(e);
    return status + n;
}

int functions_of_c(aw_runtime *rt) {
    struct fetch f = {};
    struct forget g = {};
    f.future = AW_FUTURE_INIT(&aw_type_fetch);
    f.n = 3;
    g.future = AW_FUTURE_INIT(&aw_type_forget);
    return static_cast<int>(aw_block_on(rt, f)) + aw_block_on_status(rt, g);
}

int groups(aw_runtime *rt) {
    countdown a = count_from(1), b = count_from(2);
    aw_future *both[] = {&a.future, &b.future};
    int n = aw_block_on(rt, aw_group_of(&aw_join_type, false, both, 2));
    countdown many[3] = {count_from(1), count_from(2), count_from(3)};
    n += aw_block_on(rt, aw_join_all(many, 3));
    return n;
}

} // namespace

int main() {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.name = "cpp";
    aw_runtime *rt = nullptr;
    if (aw_runtime_new(&rt, &options) != 0) return 1;
    int n = wakers() + poll_loop() + leaves(rt) + tasks(rt) + groups(rt) + functions_of_c(rt);
    aw_runtime_free(rt);
    return n + aw_run(aw_ready_now(0));
}
