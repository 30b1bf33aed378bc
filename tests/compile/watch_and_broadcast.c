// Watch and broadcast in strict C11, with literals as values.
// MUST COMPILE
// flags: -Wpedantic -Werror -Wshadow
#include <awake.h>

struct pair {
    int a, b;
};

static AW_WATCH(struct pair) watched;
static AW_BROADCAST(struct pair) broadcast;
static AW_BROADCAST_STORAGE(struct pair, 3) room;

AW_ASYNC(int, follows, struct pair p; aw_watch_receiver w; aw_broadcast_receiver b;
         aw_watch_future changed; aw_broadcast_future recv;) {
    AW_BEGIN;
    AW_AWAIT(self->changed, aw_watch_changed(&self->w));
    aw_watch_see(&watched, &self->w, &self->p);
    AW_AWAIT(self->recv, aw_broadcast_recv(&broadcast, &self->b, &self->p));
    AW_AWAIT(self->changed, aw_watch_closed(&watched));
    AW_AWAIT(self->recv, aw_broadcast_closed(&broadcast));
    AW_RETURN(aw_broadcast_try_recv(&broadcast, &self->b, &self->p));
    AW_END;
}

int main(void) {
    aw_watch_init(&watched, &(struct pair){1, 2});
    aw_watch_set(&watched, &(struct pair){2, 3});
    int n = aw_broadcast_init_in(&broadcast, &room) + aw_watch_send(&watched, &(struct pair){3, 4});
    n += aw_broadcast_send(&broadcast, &(struct pair){5, 6});
    aw_watch_receiver w = aw_watch_subscribe(&watched);
    aw_broadcast_receiver b = aw_broadcast_subscribe(&broadcast);
    n += aw_run(AW_CALL(follows, .w = w, .b = b));
    aw_watch_unsubscribe(&w);
    aw_broadcast_unsubscribe(&broadcast, &b);
    return n;
}
