/* SPDX-License-Identifier: MIT
 *
 * Load generator: plain epoll, without Awake, so that a bug of Awake cannot hide. All modes are
 * bounded in number and time, and check every byte that comes back.
 *
 *     load echo PORT ...        connections with one message in flight each: after its echo the
 *                               next one is sent
 *     load accept PORT ...      connect, send a byte, wait for its echo, close: `connections` at a
 *                               time
 *     load transfer PORT ...    one connection, `bytes` in one direction; the server answers with a
 *                               checksum
 *     load hold PORT ...        connections that send one byte and then stay idle, until the end of
 *                               input
 *
 * Options are NAME=NUMBER: connections, threads, milliseconds, warmup (milliseconds), count (of
 * messages or connections; 0: until the time is over), bytes, size (of a message), server (its
 * process id, to measure its CPU time). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>

#include "histogram.h"
#include "net.h"

enum { EVENTS = 256, MOST = 1024 /* bytes of a message */, SOURCES = 64 };

static struct {
    const char *mode;
    int port;
    long threads, connections, milliseconds, warmup, count, bytes, size, server;
} options = {"echo", 0, 1, 64, 2000, 200, 0, 1 << 30, NET_MESSAGE, 0};

typedef struct connection {
    int fd;
    uint32_t got;
    uint64_t sent_at, sequence;
    bool waits; /* for an echo */
} connection;

typedef struct thread {
    pthread_t id;
    int poll;
    long connections, open; /* of this thread; not finished yet */
    connection *all;
    long left; /* remaining, if `count` was given */
    uint64_t errors;
    histogram latencies;
} thread;

/* The measured interval. 0: only `count` limits the run. */
static uint64_t from, until;

static bool over(uint64_t now, thread *t) {
    return until ? now >= until : t->left <= 0;
}

static void note(thread *t, uint64_t begun, uint64_t now) {
    if (!until || (now >= from && now < until)) histogram_add(&t->latencies, now - begun);
}

/* ---- Echo ------------------------------------------------------------------------------------ */

/* Every message of every connection has its own contents. */
static void fill(char *message, uint64_t which, uint64_t sequence) {
    uint64_t x = (which + 1) * 0x9e3779b97f4a7c15u ^ sequence;
    for (long i = 0; i < options.size; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(message + i, &x, 8);
    }
}

static void say(thread *t, connection *c, uint64_t now) {
    char message[MOST];
    fill(message, (uint64_t)(c - t->all), ++c->sequence);
    c->got = 0;
    c->sent_at = now;
    c->waits = true;
    t->left--;
    if (send(c->fd, message, (size_t)options.size, MSG_NOSIGNAL) != options.size) t->errors++;
}

/* Receives a part of the echo, nearly always all of it. */
static void hear(thread *t, connection *c) {
    char message[MOST], expected[MOST];
    ssize_t n = recv(c->fd, message, (size_t)options.size - c->got, 0);
    if (n < 0 && errno == EAGAIN) return;
    fill(expected, (uint64_t)(c - t->all), c->sequence);
    bool same = n > 0 && c->waits && memcmp(message, expected + c->got, (size_t)n) == 0;
    if (!same) {
        t->errors++;
        t->open--;
        c->waits = false;
        close(c->fd);
        c->fd = -1;
        return;
    }
    c->got += (uint32_t)n;
    if (c->got < options.size) return;
    uint64_t now = net_now();
    c->waits = false;
    note(t, c->sent_at, now);
    if (over(now, t))
        t->open--;
    else
        say(t, c, now);
}

static void *echo(void *data) {
    thread *t = data;
    struct epoll_event events[EVENTS];
    t->open = t->connections;
    for (long i = 0; i < t->connections; i++)
        say(t, &t->all[i], net_now());
    while (t->open > 0) {
        int n = epoll_wait(t->poll, events, EVENTS, 5000);
        if (n == 0) break; /* echoes are missing */
        for (int i = 0; i < n; i++)
            hear(t, events[i].data.ptr);
    }
    t->errors += (uint64_t)t->open;
    return NULL;
}

static int connected(void) {
    struct sockaddr_in to = net_address(options.port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    net_check(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    net_nodelay(fd);
    return fd;
}

static void connect_all(thread *t) {
    for (long i = 0; i < t->connections; i++) {
        connection *c = &t->all[i];
        struct epoll_event e = {.events = EPOLLIN, .data = {.ptr = c}};
        c->fd = connected();
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        net_check(epoll_ctl(t->poll, EPOLL_CTL_ADD, c->fd, &e) == 0, "epoll_ctl");
    }
}

/* ---- Connect, one byte, close ---------------------------------------------------------------- */

/* Uses many source addresses, because a closed connection blocks its port for a minute. On loopback
 * the connection is established when connect returns, and the byte can be sent. */
static void dial(thread *t, connection *c) {
    static uint32_t next;
    struct sockaddr_in to = net_address(options.port), own = net_address(0);
    struct epoll_event e = {.events = EPOLLIN, .data = {.ptr = c}};
    int late = 1;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK +
                                __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % SOURCES);
    t->left--;
    c->sent_at = net_now();
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    net_check(c->fd >= 0, "socket");
    setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof late);
    net_check(bind(c->fd, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    c->waits = connect(c->fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS;
    if (!c->waits || send(c->fd, "x", 1, MSG_NOSIGNAL) == 1) c->got = 1;
    if (!c->got) e.events = EPOLLOUT;
    net_check(epoll_ctl(t->poll, EPOLL_CTL_ADD, c->fd, &e) == 0, "epoll_ctl");
}

static void dialled(thread *t, connection *c) {
    char byte = 0;
    if (!c->got) {
        struct epoll_event e = {.events = EPOLLIN, .data = {.ptr = c}};
        c->got = 1;
        if (send(c->fd, "x", 1, MSG_NOSIGNAL) == 1) {
            epoll_ctl(t->poll, EPOLL_CTL_MOD, c->fd, &e);
            return;
        }
    }
    if (recv(c->fd, &byte, 1, 0) != 1 || byte != 'x') t->errors++;
    close(c->fd);
    uint64_t now = net_now();
    note(t, c->sent_at, now);
    *c = (connection){.fd = -1};
    if (over(now, t))
        t->open--;
    else
        dial(t, c);
}

static void *accept_rate(void *data) {
    thread *t = data;
    struct epoll_event events[EVENTS];
    t->open = t->connections;
    for (long i = 0; i < t->connections; i++)
        dial(t, &t->all[i]);
    while (t->open > 0) {
        int n = epoll_wait(t->poll, events, EVENTS, 5000);
        if (n == 0) break;
        for (int i = 0; i < n; i++)
            dialled(t, events[i].data.ptr);
    }
    t->errors += (uint64_t)t->open;
    return NULL;
}

/* ---- Run ------------------------------------------------------------------------------------- */

static uint64_t cpu_of_server(void) {
    clockid_t clock;
    if (!options.server || clock_getcpuclockid((pid_t)options.server, &clock)) return 0;
    return net_clock(clock);
}

static void sleep_until(uint64_t when) {
    struct timespec t = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void report(const histogram *h, uint64_t errors, double seconds, double cpu, double own) {
    double n = (double)h->all;
    net_report("rate", n / seconds, "/s");
    net_report("p50", histogram_quantile(h, 0.5) / 1e3, "us");
    net_report("p99", histogram_quantile(h, 0.99) / 1e3, "us");
    net_report("p99.9", histogram_quantile(h, 0.999) / 1e3, "us");
    if (options.server) net_report("cpu", cpu / n, "ns");
    if (options.server) net_report("busy", cpu / seconds / 1e7, "%");
    net_report("load-busy", own / seconds / 1e7, "%");
    net_report("count", n, "times");
    net_report("errors", (double)errors, "times");
}

static int generate(void *(*run)(void *), bool connect_first) {
    thread *threads = calloc((size_t)options.threads, sizeof *threads);
    for (long i = 0; i < options.threads; i++) {
        thread *t = &threads[i];
        t->connections = options.connections / options.threads;
        t->left = options.count / options.threads;
        t->all = calloc((size_t)t->connections, sizeof *t->all);
        t->poll = epoll_create1(EPOLL_CLOEXEC);
        net_check(t->all && t->poll >= 0, "memory and an epoll");
        if (connect_first) connect_all(t);
    }
    uint64_t begin = net_now();
    if (!options.count) {
        from = begin + (uint64_t)options.warmup * 1000000u;
        until = from + (uint64_t)options.milliseconds * 1000000u;
    }
    for (long i = 0; i < options.threads; i++)
        net_check(pthread_create(&threads[i].id, NULL, run, &threads[i]) == 0, "a thread");
    if (until) sleep_until(from);
    uint64_t start = net_now(), cpu = cpu_of_server(), own = net_clock(CLOCK_PROCESS_CPUTIME_ID);
    if (until) {
        sleep_until(until);
        cpu = cpu_of_server() - cpu;
        own = net_clock(CLOCK_PROCESS_CPUTIME_ID) - own;
    }
    uint64_t end = net_now();
    histogram *all = calloc(1, sizeof *all);
    uint64_t errors = 0;
    for (long i = 0; i < options.threads; i++) {
        pthread_join(threads[i].id, NULL);
        histogram_merge(all, &threads[i].latencies);
        errors += threads[i].errors;
    }
    if (!until) {
        end = net_now();
        start = begin;
        cpu = cpu_of_server() - cpu;
        own = net_clock(CLOCK_PROCESS_CPUTIME_ID) - own;
    }
    report(all, errors, (double)(end - start) / 1e9, (double)cpu, (double)own);
    return errors != 0;
}

/* ---- Transfer -------------------------------------------------------------------------------- */

static int transfer(void) {
    enum { PIECE = 256 * 1024 };
    static uint64_t piece[PIECE / 8];
    uint64_t x = 88172645463325252u, total = (uint64_t)options.bytes;
    net_sum sum = {0};
    for (size_t i = 0; i < sizeof piece / 8; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        piece[i] = x;
    }
    for (uint64_t n = 0; n < total; n += PIECE)
        net_sum_add(&sum, piece, total - n < PIECE ? total - n : PIECE);
    net_receipt expected = net_sum_end(&sum), got = {0};

    int fd = connected();
    uint64_t start = net_now(), cpu = cpu_of_server(), own = net_clock(CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t n = 0; n < total;) {
        size_t at = n % PIECE, size = PIECE - at;
        ssize_t m = send(fd, (char *)piece + at, size < total - n ? size : total - n, MSG_NOSIGNAL);
        net_check(m > 0, "send");
        n += (uint64_t)m;
    }
    net_check(shutdown(fd, SHUT_WR) == 0, "shutdown");
    ssize_t n = recv(fd, &got, sizeof got, MSG_WAITALL);
    double seconds = (double)(net_now() - start) / 1e9;
    cpu = cpu_of_server() - cpu;
    own = net_clock(CLOCK_PROCESS_CPUTIME_ID) - own;
    bool same = n == sizeof got && got.count == expected.count && got.sum == expected.sum;
    net_report("rate", (double)total / seconds / (1 << 20), "MiB/s");
    if (options.server) net_report("cpu", (double)cpu / 1e6, "ms");
    if (options.server) net_report("busy", (double)cpu / seconds / 1e7, "%");
    net_report("load-busy", (double)own / seconds / 1e7, "%");
    net_report("errors", !same, "times");
    return !same;
}

/* ---- Idle connections ------------------------------------------------------------------------ */

static int hold(void) {
    for (long i = 0; i < options.connections; i++) {
        char byte = (char)i, back = 0;
        int fd = connected();
        net_check(send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && recv(fd, &back, 1, 0) == 1 &&
                      back == byte,
                  "echo of one byte");
    }
    printf("holding %ld\n", options.connections);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}

/* ---- Main ------------------------------------------------------------------------------------ */

static bool set(const char *text) {
    struct {
        const char *name;
        long *to;
    } names[] = {{"connections", &options.connections},
                 {"threads", &options.threads},
                 {"milliseconds", &options.milliseconds},
                 {"warmup", &options.warmup},
                 {"count", &options.count},
                 {"bytes", &options.bytes},
                 {"size", &options.size},
                 {"server", &options.server}};
    const char *value = strchr(text, '=');
    for (size_t i = 0; value && i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == (size_t)(value - text) &&
            strncmp(text, names[i].name, (size_t)(value - text)) == 0) {
            *names[i].to = atol(value + 1);
            return true;
        }
    return false;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "load echo|accept|transfer|hold PORT [NAME=NUMBER ...]\n");
        return 2;
    }
    options.mode = argv[1];
    options.port = atoi(argv[2]);
    bool sensible = true;
    for (int i = 3; i < argc; i++)
        sensible = set(argv[i]) && sensible;
    sensible = sensible && options.threads > 0 && options.connections >= options.threads &&
               options.size >= 8 && options.size <= MOST && options.size % 8 == 0;
    if (!sensible) {
        fprintf(stderr, "invalid options\n");
        return 2;
    }
    alarm((unsigned)(options.milliseconds / 1000 + 60));
    if (strcmp(options.mode, "echo") == 0) return generate(echo, true);
    if (strcmp(options.mode, "accept") == 0) return generate(accept_rate, false);
    if (strcmp(options.mode, "transfer") == 0) return transfer();
    if (strcmp(options.mode, "hold") == 0) return hold();
    fprintf(stderr, "unknown mode: %s\n", options.mode);
    return 2;
}
