/* SPDX-License-Identifier: MIT
 *
 * A timeout around any future. When the time is up, the inner future is cancelled: it is not
 * dropped, but asked to stop, and polled until it has ended.
 *
 * If it finishes during that time, its output counts: no value is lost. The cook can stop at any
 * time. The courier cannot turn back, so cancelling it means waiting until the parcel is there.
 *
 * Notice the third result: the time was up, and there is a value all the same. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

AW_ASYNC(int, cook, uint64_t duration; aw_sleep work;) {
    AW_BEGIN;
    AW_AWAIT(self->work, aw_sleep_for(self->duration));
    AW_RETURN(42);
    AW_END;
}

struct courier {
    aw_future future;
    int out;
    aw_sleep ride;
};

static aw_poll courier_poll(aw_future *self, aw_cx *cx) {
    struct courier *courier = (struct courier *)self;
    courier->out = 42;
    return aw_future_poll(&courier->ride.future, cx);
}

static aw_poll courier_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_started(self) ? courier_poll(self, cx) : AW_CANCELLED;
}

static const aw_future_type courier_type = {
    AW_TYPE_OF(struct courier, "courier"),
    .poll = courier_poll,
    .cancel = courier_cancel,
};

static struct courier courier_for(uint64_t duration) {
    return (struct courier){.future = AW_FUTURE_INIT(&courier_type),
                            .ride = aw_sleep_for(duration)};
}

static void print_result(const char *what, int error, int value) {
    if (error == -ETIMEDOUT)
        printf("%s: timed out\n", what);
    else
        printf("%s: %d\n", what, value);
}

AW_ASYNC(int, lunch, AW_TIMEOUT(struct cook) order; AW_TIMEOUT(struct courier) parcel;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->order, AW_MSEC(300), AW_CALL(cook, .duration = AW_MSEC(100)));
    print_result("a quick cook", self->order.out, self->order.inner.out);

    AW_AWAIT_FOR(self->order, AW_MSEC(100), AW_CALL(cook, .duration = AW_SEC(60)));
    print_result("a slow cook", self->order.out, self->order.inner.out);

    AW_AWAIT_FOR(self->parcel, AW_MSEC(100), courier_for(AW_MSEC(200)));
    print_result("a late courier", self->parcel.out, self->parcel.inner.out);
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(lunch));
}
