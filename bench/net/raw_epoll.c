/* SPDX-License-Identifier: MIT
 *
 * The upper bound for epoll: a hand-written server with a minimum of system calls. Level-triggered,
 * one read and one write per message, one buffer per thread. The first thread accepts, and
 * distributes the connections round-robin. */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/epoll.h>

#include "server.h"

enum { EVENTS = 256, THREADS = 16 };

static int polls[THREADS];

/* State of a connection in sink mode. In echo mode only `fd` is used. */
typedef struct connection {
    int fd;
    net_sum *sum;
} connection;

static connection *table; /* indexed by descriptor */
enum { TABLE = 20000 };

static void accept_all(void) {
    static unsigned next;
    for (;;) {
        int fd = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        if (fd >= TABLE) {
            close(fd);
            continue;
        }
        net_nodelay(fd);
        struct epoll_event e = {.events = EPOLLIN, .data = {.fd = fd}};
        table[fd] = (connection){fd, server_mode("sink") ? calloc(1, sizeof(net_sum)) : NULL};
        epoll_ctl(polls[next++ % (unsigned)server.threads], EPOLL_CTL_ADD, fd, &e);
    }
}

/* close also removes the descriptor from the epoll set. */
static void end(connection *c) {
    free(c->sum);
    close(c->fd);
}

/* Blocks all connections of the thread while one peer does not read. The load generator always
 * reads. */
static void write_all(int fd, const char *data, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = send(fd, data + done, size - done, MSG_NOSIGNAL);
        struct pollfd room = {fd, POLLOUT, 0};
        if (n > 0)
            done += (size_t)n;
        else if (errno != EAGAIN || poll(&room, 1, -1) < 0)
            return; /* the next read reports the error */
    }
}

static void serve(connection *c, char *buffer) {
    if (!c->sum) {
        ssize_t n = recv(c->fd, buffer, NET_BUFFER, 0);
        if (n > 0)
            write_all(c->fd, buffer, (size_t)n);
        else if (n == 0 || errno != EAGAIN)
            end(c);
        return;
    }
    ssize_t n = recv(c->fd, buffer, NET_SINK, 0);
    if (n > 0) net_sum_add(c->sum, buffer, (size_t)n);
    if (n > 0 || (n < 0 && errno == EAGAIN)) return;
    net_receipt r = net_sum_end(c->sum);
    write_all(c->fd, (char *)&r, sizeof r);
    end(c);
}

static void *loop(void *data) {
    int from = *(int *)data;
    struct epoll_event events[EVENTS];
    char *buffer = malloc(NET_SINK);
    for (;;) {
        int n = epoll_wait(from, events, EVENTS, -1);
        for (int i = 0; i < n; i++)
            if (events[i].data.fd == server.listener)
                accept_all();
            else
                serve(&table[events[i].data.fd], buffer);
    }
    return NULL;
}

int main(int argc, char **argv) {
    table = calloc(TABLE, sizeof *table);
    server_begin(argc, argv, server_stop_at_once);
    for (int i = 0; i < server.threads; i++)
        polls[i] = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data = {.fd = server.listener}};
    net_check(epoll_ctl(polls[0], EPOLL_CTL_ADD, server.listener, &e) == 0, "epoll_ctl");
    for (int i = 1; i < server.threads; i++) {
        pthread_t t;
        net_check(pthread_create(&t, NULL, loop, &polls[i]) == 0, "a thread");
    }
    loop(&polls[0]);
}
