/* SPDX-License-Identifier: MIT
 *
 * A port scanner: which ports of a host accept connections?
 *
 *     84_port_scanner 127.0.0.1 1 1023        those ports of an address
 *     84_port_scanner                         300 closed ports, and five that it has opened
 *
 * The ports are a stream. A concurrent map makes another stream of it: up to 100 connection
 * attempts at once, each with a timeout of one second, and results as they arrive. That number is
 * all there is to say about concurrency: no queue, no workers, no counting. An attempt starts only
 * when a result is requested, and a slow attempt does not delay the others.
 *
 * Notice the number of attempts that were in flight at once. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_IN_FLIGHT = 100 };

struct result {
    uint16_t port;
    int error; /* 0: the port is open */
};

static int in_flight, max_in_flight; /* not locked: one task polls all probes */

struct probe {
    AW_FRAME(struct result);
    aw_addr to;
    aw_conn *conn;
    AW_TIMEOUT(aw_connect_future) connect;
};
AW_ASYNC_STATIC(probe) {
    AW_BEGIN;
    if (++in_flight > max_in_flight) max_in_flight = in_flight;
    AW_AWAIT_FOR(self->connect, AW_SEC(1), aw_connect(&self->conn, &self->to));
    in_flight--;
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

/* Prints the open ports. Its output is their number. */
struct scan {
    AW_FRAME(int);
    aw_addr host;
    uint16_t *ports;
    size_t count;
    AW_ARRAY_STREAM(uint16_t) list;
    struct probes probes;
    aw_stream_next_future next;
    int open, closed, silent;
};
AW_ASYNC_STATIC(scan) {
    AW_BEGIN;
    aw_stream_array(&self->list, self->ports, self->count);
    self->probes = AW_UNORDERED(probes, &self->list, MAX_IN_FLIGHT, .host = self->host);
    AW_STREAM_EACH(self->next, &self->probes) {
        const struct result *r = self->probes.item;
        if (r->error == 0) printf("%u is open\n", r->port);
        self->open += r->error == 0;
        self->closed += r->error == -ECONNREFUSED;
        self->silent += r->error == -ETIMEDOUT;
    }
    if (self->next.out < 0) AW_RETURN(self->next.out);
    printf("%d open, %d closed, %d without an answer, %d with another error\n", self->open,
           self->closed, self->silent, (int)self->count - self->open - self->closed - self->silent);
    AW_RETURN(self->open);
    AW_END;
}

/* ---- The demo -------------------------------------------------------------------------------- */

/* A port that is bound, but does not listen. */
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
    printf("%s\n", error == OPEN ? "all open ports were found" : "the scan failed");
    printf("%d were in flight at once\n", max_in_flight);
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
