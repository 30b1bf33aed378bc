// A channel and its type check in C++.
// MUST COMPILE
// lang: c++
// flags: -Wpedantic -Werror -Wshadow
#include <awake.h>

typedef AW_CHANNEL(int) ints;

int main() {
    ints c, *d = aw_channel_new(ints, 2);
    AW_CHANNEL_STORAGE(int, 3) room;
    const int in = 1;
    int out[2];
    int r = aw_channel_init_in(&c, &room);
    r += aw_channel_try_send(&c, &in) + aw_wait(aw_channel_send(&c, &in));
    r += aw_wait(aw_channel_recv(&c, &out[0])) + aw_wait(aw_channel_recv_many(&c, out, 2));
    aw_channel_close(&c);
    aw_channel_free(&c);
    aw_channel_sender_drop(d);
    aw_channel_receiver_drop(d);
    return r;
}
