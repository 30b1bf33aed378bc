/* SPDX-License-Identifier: MIT
 *
 * A port scanner: who listens at that host?
 *
 *     84_port_scanner 127.0.0.1 1 1023        those ports of an address
 *     84_port_scanner                         some ports, of which it has opened five itself
 *
 * The ports are a stream, and a future for each is another one: up to a hundred attempts at once, each with a second
 * of patience, and results as they come. That number is all there is to say about concurrency: no queue, no workers, no
 * counting. What is not asked for does not run ahead, and what is found late does not hold up the others.
 *
 * Notice how many attempts were on their way at once in the end. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AT_ONCE = 100 };

struct result {
    uint16_t port;
    int error; /* 0: somebody listens */
};

static int on_their_way, most_on_their_way; /* of futures that one task polls: no need to lock */

AW_ASYNC(struct result, probe, aw_addr to; aw_conn * conn; AW_TIMEOUT(aw_connect_future) connect;) {
    AW_BEGIN;
    if (++on_their_way > most_on_their_way) most_on_their_way = on_their_way;
    AW_AWAIT_FOR(self->connect, AW_SEC(1), aw_connect(&self->conn, &self->to));
    on_their_way--;
    if (!self->connect.out) self->connect.out = self->connect.inner.out;
    AW_RETURN((struct result){.port = aw_addr_port(&self->to), .error = self->connect.out});
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

AW_CONCURRENT(struct probe, probes, uint16_t, aw_addr host;) {
    aw_addr to = self->host;
    aw_addr_set_port(&to, *item);
    return AW_CALL(probe, .to = to);
}

/* The open ones are printed; its output is how many there are. */
AW_ASYNC(int, scan, aw_addr host; uint16_t * ports; size_t count; AW_ARRAY_STREAM(uint16_t) list;
         struct probes probes; aw_stream_next_future next; int open; int closed; int silent;) {
    AW_BEGIN;
    aw_stream_array(&self->list, self->ports, self->count);
    self->probes = AW_UNORDERED(probes, &self->list, AT_ONCE, .host = self->host);
    AW_STREAM_EACH(self->next, &self->probes) {
        const struct result *r = self->probes.item;
        if (r->error == 0) printf("%u is open\n", r->port);
        self->open += r->error == 0;
        self->closed += r->error == -ECONNREFUSED;
        self->silent += r->error == -ETIMEDOUT;
    }
    if (self->next.out < 0) AW_RETURN(self->next.out);
    printf("%d open, %d closed, %d silent, %d others\n", self->open, self->closed, self->silent,
           (int)self->count - self->open - self->closed - self->silent);
    AW_RETURN(self->open);
    AW_END;
}

/* ---- Ports to find -------------------------------------------------------------------------------- */

/* A port that is taken, and at which nobody listens. */
static int closed_port(int *fd) {
    aw_addr any = aw_addr_loopback(AF_INET, 0);
    socklen_t size = sizeof any.u;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, &any.u.any, any.size) || getsockname(*fd, &any.u.any, &size)) return 0;
    return aw_addr_port(&any);
}

static int demo(void) {
    enum { OPEN = 5, CLOSED = 300 };
    aw_addr host = aw_addr_loopback(AF_INET, 0), at;
    aw_listener *listeners[OPEN] = {NULL};
    int fds[CLOSED], error = 0;
    uint16_t ports[OPEN + CLOSED];
    size_t count = 0, opened = 0;
    for (size_t i = 0; i < CLOSED; i++) {
        ports[count++] = (uint16_t)closed_port(&fds[i]);
        if (i % (CLOSED / OPEN) || error) continue;
        error = aw_listen(&listeners[opened], &host, NULL);
        if (error) continue;
        aw_listener_addr(listeners[opened++], &at);
        ports[count++] = aw_addr_port(&at);
    }
    if (!error) error = aw_run(AW_CALL(scan, .host = host, .ports = ports, .count = count));
    printf("%s\n", error == OPEN ? "these are the ones that were opened" : "something is wrong");
    printf("%d were on their way at once\n", most_on_their_way);
    for (size_t i = 0; i < CLOSED; i++)
        close(fds[i]);
    for (size_t i = 0; i < OPEN; i++)
        aw_listener_close(listeners[i]);
    return error != OPEN;
}

int main(int argc, char **argv) {
    if (argc < 4) return demo();
    static uint16_t ports[65536];
    size_t count = 0;
    aw_addr host;
    if (aw_addr_of_ip(&host, argv[1], 0)) {
        fprintf(stderr, "%s is not an address\n", argv[1]);
        return 1;
    }
    for (int port = atoi(argv[2]); port <= atoi(argv[3]) && port < 65536; port++)
        ports[count++] = (uint16_t)port;
    return aw_run(AW_CALL(scan, .host = host, .ports = ports, .count = count)) < 0;
}
