// MUST COMPILE
// flags: -Wpedantic -Werror -Wshadow
#include <awake.h>

struct pair {
    int a, b;
};

typedef AW_CHANNEL(struct pair) pairs;
typedef AW_CHANNEL(void (*)(int)) functions;
static AW_CHANNEL(char[20]) names;
static AW_CHANNEL_STORAGE(struct pair, 4) room;

AW_ASYNC(int, relay, pairs *from, *to; struct pair p; aw_channel_future f;) {
    AW_BEGIN;
    AW_AWAIT(self->f, aw_channel_recv(self->from, &self->p));
    AW_AWAIT(self->f, aw_channel_send(self->to, &self->p));
    AW_AWAIT(self->f, aw_channel_recv_many(self->from, &self->p, 1));
    AW_AWAIT(self->f, aw_channel_reserve(self->to));
    AW_AWAIT(self->f, aw_channel_closed(self->to));
    AW_RETURN(aw_channel_send_reserved(self->to, &self->p));
    AW_END;
}

int main(void) {
    const struct pair p = {1, 2};
    char name[20];
    pairs c;
    functions *f = aw_channel_new(functions, AW_UNBOUNDED);
    aw_channel_sender_drop(f);
    aw_channel_receiver_drop(f);
    (void)aw_channel_try_send(
        &c, &(struct pair){(int)sizeof name, 2}); /* a literal, until the call returns */
    return aw_channel_init_in(&c, &room) + aw_channel_try_send(&c, &p) +
           aw_channel_init(&names, 3) + aw_channel_try_recv(&names, &name);
}
