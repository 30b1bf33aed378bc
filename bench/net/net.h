/* SPDX-License-Identifier: MIT
 *
 * Shared by the servers and the load generator of the network benchmarks. It does not use Awake:
 * the load generator and the raw servers are what Awake is measured against. All traffic is on
 * 127.0.0.1. */
#ifndef AWAKE_BENCH_NET_H
#define AWAKE_BENCH_NET_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    NET_MESSAGE = 64,     /* bytes of a message, by default */
    NET_BUFFER = 1024,    /* read size of an echo server */
    NET_SINK = 256 * 1024 /* read size of a sink */
};

static inline void net_check(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "failed: %s: %s\n", what, strerror(errno));
    exit(1);
}

static inline uint64_t net_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t net_now(void) {
    return net_clock(CLOCK_MONOTONIC);
}

static inline void net_report(const char *name, double value, const char *unit) {
    printf("%s %.6g %s\n", name, value, unit);
}

static inline struct sockaddr_in net_address(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static inline void net_nodelay(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* ---- Checksum of a transfer ------------------------------------------------------------------ */

/* Two sums over 8-byte words, the second one of the first. Lost, duplicated and reordered bytes
 * change the result. The cost is small against that of the socket. */
typedef struct net_sum {
    uint64_t a, b, word; /* word: bytes that are not yet a whole word */
    uint64_t count;      /* bytes */
} net_sum;

static inline void net_sum_word(net_sum *s, uint64_t word) {
    s->a += word;
    s->b += s->a;
}

static inline void net_sum_byte(net_sum *s, unsigned char byte) {
    s->word |= (uint64_t)byte << (s->count++ % 8 * 8);
    if (s->count % 8) return;
    net_sum_word(s, s->word);
    s->word = 0;
}

static inline void net_sum_add(net_sum *s, const void *data, size_t size) {
    const unsigned char *p = data, *end = p + size;
    while (p < end && s->count % 8)
        net_sum_byte(s, *p++);
    net_sum sum = *s;
    for (; end - p >= 8; p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        net_sum_word(&sum, word);
        sum.count += 8;
    }
    *s = sum;
    while (p < end)
        net_sum_byte(s, *p++);
}

/* The receiver's answer at the end of a transfer. */
typedef struct net_receipt {
    uint64_t count, sum;
} net_receipt;

static inline net_receipt net_sum_end(const net_sum *s) {
    return (net_receipt){s->count, s->b ^ (s->a << 1) ^ s->word};
}

#endif
