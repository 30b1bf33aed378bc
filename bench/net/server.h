/* SPDX-License-Identifier: MIT
 *
 * Shared by the raw servers and Awake's: the listening socket, and a thread that serves commands
 * from standard input. The thread sleeps while a benchmark runs.
 *
 *     SERVER MODE THREADS      echo: returns what it reads; sink: consumes it, and answers with a
 *                              checksum
 *
 * The server prints "port N". It answers "memory" with the bytes allocated by malloc and the
 * resident bytes, "counters" with a line per worker, "driver" with the name of the driver. It ends
 * with its input. */
#ifndef AWAKE_BENCH_SERVER_H
#define AWAKE_BENCH_SERVER_H

#include <malloc.h>
#include <pthread.h>

#include "net.h"

static struct {
    const char *mode;
    int threads;
    int listener;
    void (*counters)(void);
    void (*driver)(void);
    void (*stop)(void);
} server;

static inline int server_mode(const char *mode) {
    return strcmp(server.mode, mode) == 0;
}

static inline void server_memory(void) {
    struct mallinfo2 info = mallinfo2();
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    net_check(f && fscanf(f, "%ld %ld", &size, &resident) == 2, "/proc/self/statm");
    fclose(f);
    printf("%zu %zu\n", info.uordblks + info.hblkhd,
           (size_t)resident * (size_t)sysconf(_SC_PAGESIZE));
}

static inline void *server_control(void *unused) {
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "memory\n") == 0) server_memory();
        if (strcmp(line, "counters\n") == 0 && server.counters) server.counters();
        if (strcmp(line, "driver\n") == 0 && server.driver) server.driver();
        printf(".\n");
        fflush(stdout);
    }
    server.stop();
    return unused;
}

static inline void server_stop_at_once(void) {
    _exit(0);
}

/* Call it first. `stop` is called on a thread of its own. */
static inline void server_begin(int argc, char **argv, void (*stop)(void)) {
    struct sockaddr_in address = net_address(0);
    socklen_t length = sizeof address;
    server.mode = argc > 1 ? argv[1] : "echo";
    server.threads = argc > 2 ? atoi(argv[2]) : 1;
    server.stop = stop;
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    net_check(server.listener >= 0, "socket");
    int on = 1; /* for servers with several listeners */
    setsockopt(server.listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    net_check(bind(server.listener, (struct sockaddr *)&address, length) == 0, "bind");
    net_check(listen(server.listener, 4096) == 0, "listen");
    net_check(getsockname(server.listener, (struct sockaddr *)&address, &length) == 0,
              "getsockname");
    pthread_t control;
    net_check(pthread_create(&control, NULL, server_control, NULL) == 0, "a thread");
    pthread_detach(control);
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
}

#endif
