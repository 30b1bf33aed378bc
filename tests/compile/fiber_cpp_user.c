// What a C++ program can use of fibers, without a warning.
// MUST COMPILE
// lang: c++
// flags: -Wpedantic -Wshadow -Werror
#include <awake.h>

#include <cerrno>

/* Fibers in C, declared in a header that both include. */
struct serve {
    AW_FIBER_FRAME(long);
    int fd;
};
struct forget {
    AW_FIBER_FRAME(void);
};
AW_FIBER_DECL(serve);
AW_FIBER_DECL(forget);

namespace {

serve make_serve(int fd) {
    serve s = {};
    s.future = AW_FUTURE_INIT(&aw_type_serve);
    s.fd = fd;
    return s;
}

struct job {
    aw_notify ready = AW_NOTIFY_INIT;
    int sum = 0;
};

int nested(job *j, int depth) {
    if (depth) return nested(j, depth - 1);
    return aw_await(aw_notify_wait(&j->ready));
}

int run(void *arg) {
    job *j = static_cast<job *>(arg);
    int r = aw_await(aw_sleep_for(AW_MSEC(1)));
    if (r < 0) return r;
    r = aw_await_for(AW_SEC(1), aw_notify_wait(&j->ready));
    if (r == -ETIMEDOUT) r = nested(j, 3);
    r = aw_await_by(AW_SEC(1), aw_sleep_for(1));
    long n = aw_await(make_serve(3));
    if (n < 0) return static_cast<int>(n);
    int error = aw_await_into(&n, make_serve(4));
    if (error < 0) return error;
    error = aw_await_into_for(AW_SEC(1), &n, make_serve(4));
    error = aw_await_into_by(AW_SEC(1), &n, make_serve(4));
    error = aw_await_status(make_serve(5));
    aw_sleep nap = aw_sleep_for(1);
    error = aw_await_future(&nap.future);
    if (aw_fiber_yield() < 0 && aw_cancelled()) {
        AW_SHIELD {
            r = aw_await(aw_sleep_for(1));
        }
        AW_SHIELD r = aw_await(aw_sleep_for(1));
        return r;
    }
    if (aw_fiber_cx() == nullptr) return -EINVAL;
    return error < 0 ? aw_fiber_fail(-EPROTO) : j->sum;
}

void drop(void *arg) {
    static_cast<job *>(arg)->sum = -1;
}

} // namespace

int main() {
    job j;
    aw_fiber_measure(true);
    if (aw_stack_overflow(AW_OVERFLOW_AUTO) < 0) return 1;
    int r = aw_run(aw_fiber_of(run, &j));
    r += aw_run(aw_fiber_with(run, drop, &j, 65536));
    aw_stacks_trim();
    return r + (aw_fiber_high_water(&aw_fiber_type) > 0);
}
