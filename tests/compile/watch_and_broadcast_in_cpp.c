// Watch and broadcast in C++.
// MUST COMPILE
// lang: c++
// flags: -Wpedantic -Werror -Wshadow
#include <awake.h>

struct pair {
    int a, b;
};

static bool swap(void *value, void *) {
    pair *p = static_cast<pair *>(value);
    *p = {p->b, p->a};
    return true;
}

int main() {
    AW_WATCH(pair) w;
    AW_BROADCAST(pair) b;
    AW_BROADCAST_STORAGE(pair, 3) room;
    pair p = {1, 2};
    aw_watch_init(&w, &p);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    int n = aw_watch_send(&w, &p) + aw_wait(aw_watch_changed(&r));
    aw_watch_set(&w, &p);
    n += aw_watch_modify(&w, swap, NULL);
    aw_watch_get(&w, &p);
    aw_watch_see(&w, &r, &p);
    aw_watch_unsubscribe(&r);
    n += aw_wait(aw_watch_closed(&w)) + aw_broadcast_init_in(&b, &room);
    aw_broadcast_receiver s = aw_broadcast_subscribe(&b);
    n += aw_broadcast_send(&b, &p) + aw_wait(aw_broadcast_recv(&b, &s, &p));
    aw_broadcast_unsubscribe(&b, &s);
    aw_broadcast_free(&b);
    aw_watch_free(&w);
    return n;
}
