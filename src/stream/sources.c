/* SPDX-License-Identifier: MIT
 *
 * Sources: arrays, intervals and channels. A source spends budget; streams on top of
 * it do not. */
#include <awake/stream.h>

#include <errno.h>

/* ---- Array ----------------------------------------------------------------------------------- */

typedef AW_ARRAY_STREAM(void) __attribute__((may_alias)) any_array;

static aw_poll array_next(aw_stream *self, aw_cx *cx, int *out) {
    any_array *s = (any_array *)self;
    if (!aw_cx_spend(cx)) return AW_PENDING;
    *out = s->left > 0;
    if (!s->left) return AW_READY;
    s->left--;
    s->item = s->next;
    s->next += s->size;
    return AW_READY;
}

const aw_stream_type aw_array_stream_type = {
    .self_size = sizeof(aw_stream_type),
    .name = "array",
    .next = array_next,
};

/* ---- Interval -------------------------------------------------------------------------------- */

/* The tick is recreated after it was delivered, and after a disarm. */
static aw_poll interval_next(aw_stream *self, aw_cx *cx, int *out) {
    aw_interval_stream *s = (aw_interval_stream *)self;
    if (!aw_future_finished(&s->tick.future)) {
        if (aw_future_ended(&s->tick.future)) s->tick = aw_interval_tick(&s->interval);
        if (aw_future_poll(&s->tick.future, cx) == AW_PENDING) return AW_PENDING;
    }
    *out = s->tick.out ? s->tick.out : 1;
    s->at = s->tick.at;
    s->item = &s->at;
    s->tick = aw_interval_tick(&s->interval);
    return AW_READY;
}

static bool interval_disarm(aw_stream *self, aw_cx *cx) {
    aw_interval_stream *s = (aw_interval_stream *)self;
    if (!aw_future_started(&s->tick.future) || aw_future_ended(&s->tick.future)) return false;
    return aw_future_cancel(&s->tick.future, cx) == AW_READY; /* a sleep ends at once */
}

static aw_poll interval_close(aw_stream *self, aw_cx *cx) {
    interval_disarm(self, cx);
    return AW_READY;
}

static const aw_future *interval_child(const aw_stream *self, size_t i) {
    return i == 0 ? &((const aw_interval_stream *)self)->tick.future : NULL;
}

static const aw_stream_type interval_type = {
    .self_size = sizeof(aw_stream_type),
    .name = "interval",
    .next = interval_next,
    .disarm = interval_disarm,
    .close = interval_close,
    .child = interval_child,
};

int aw_stream_interval_from(aw_interval_stream *s, uint64_t start, uint64_t period,
                            aw_missed missed) {
    aw__stream_init(&s->stream, &interval_type);
    int error = aw_interval_from(&s->interval, start, period, missed);
    s->tick = aw_interval_tick(&s->interval);
    return error;
}

int aw_stream_interval(aw_interval_stream *s, uint64_t period, aw_missed missed) {
    return aw_stream_interval_from(s, AW_FOREVER, period, missed);
}

/* ---- Channel --------------------------------------------------------------------------------- */

typedef AW_CHANNEL_STREAM(char) __attribute__((may_alias)) any_channel;

/* The receive is recreated for each item, and after a disarm. */
static aw_poll channel_next(aw_stream *self, aw_cx *cx, int *out) {
    any_channel *s = (any_channel *)self;
    aw_channel_future *r = &s->recv;
    if (aw_future_ended(&r->future))
        *r = aw__channel_future(&aw_channel_recv_type, r->channel, r->value, 1);
    if (aw_future_poll(&r->future, cx) == AW_PENDING) return AW_PENDING;
    s->item = r->value;
    *out = r->out == 0 ? 1 : r->out == -EPIPE ? 0 : r->out;
    return AW_READY;
}

/* A cancelled receive takes no message: it can only have found the end. */
static bool channel_disarm(aw_stream *self, aw_cx *cx) {
    aw_future *f = &((any_channel *)self)->recv.future;
    if (!aw_future_started(f) || aw_future_ended(f)) return false;
    return aw_future_cancel(f, cx) == AW_READY;
}

static aw_poll channel_close(aw_stream *self, aw_cx *cx) {
    channel_disarm(self, cx);
    return AW_READY;
}

static void channel_put_back(aw_stream *self) {
    aw_future_discard(&((any_channel *)self)->recv.future);
}

static void channel_drop(aw_stream *self, void *item) {
    aw_release_fn *release = ((any_channel *)self)->recv.channel->release;
    if (release) release(item);
}

static const aw_future *channel_child(const aw_stream *self, size_t i) {
    return i == 0 ? &((const any_channel *)self)->recv.future : NULL;
}

const aw_stream_type aw_channel_stream_type = {
    .self_size = sizeof(aw_stream_type),
    .name = "channel",
    .next = channel_next,
    .disarm = channel_disarm,
    .close = channel_close,
    .drop = channel_drop,
    .put_back = channel_put_back,
    .child = channel_child,
};
