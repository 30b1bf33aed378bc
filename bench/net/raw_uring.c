/* SPDX-License-Identifier: MIT
 *
 * The ceiling for io_uring: a server written by hand on the system calls. A ring for each thread, which alone uses it
 * (SINGLE_ISSUER, DEFER_TASKRUN), a multishot accept, and for each message a receive and a send that the kernel completes, all
 * that is to be submitted in the call that waits. The first thread accepts, and deals the connections out in turn by messages
 * between the rings.
 *
 *     echo      a receive, and when it is complete a send, and so on: what a function does that awaits both
 *     linked    the next receive is submitted with the send and linked to it: one completion for each message */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "server.h"

#ifdef IORING_SETUP_DEFER_TASKRUN /* the headers are those of Linux 6.1, or newer */

enum { ENTRIES = 512, COMPLETIONS = 4096, THREADS = 16, TABLE = 20000 };
enum { ACCEPT, DEALT, RECEIVE, SEND, OPERATIONS };

typedef struct connection {
    char *buffer;
    net_sum *sum;
    uint32_t size, done;
} connection;

typedef struct ring {
    int fd;
    uint32_t to_submit, sq_mask, cq_mask;
    uint32_t *sq_head, *sq_tail, *sq_array, *cq_head, *cq_tail;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
} ring;

static connection *table; /* by descriptor */
static ring rings[THREADS];
static pthread_barrier_t all_open;
static bool linked, sink;

/* ---- The ring --------------------------------------------------------------------------------- */

static void *map(int fd, size_t size, uint64_t what) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)what);
    net_check(at != MAP_FAILED, "mmap of a ring");
    return at;
}

static void ring_open(ring *r) {
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                         IORING_SETUP_COOP_TASKRUN | IORING_SETUP_CQSIZE,
                                .cq_entries = COMPLETIONS};
    r->fd = (int)syscall(__NR_io_uring_setup, ENTRIES, &p);
    net_check(r->fd >= 0, "io_uring_setup");
    size_t sq = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
    size_t cq = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    char *at = map(r->fd, sq > cq ? sq : cq, IORING_OFF_SQ_RING);
    r->sqes = map(r->fd, p.sq_entries * sizeof *r->sqes, IORING_OFF_SQES);
    r->sq_head = (uint32_t *)(at + p.sq_off.head);
    r->sq_tail = (uint32_t *)(at + p.sq_off.tail);
    r->sq_array = (uint32_t *)(at + p.sq_off.array);
    r->cq_head = (uint32_t *)(at + p.cq_off.head);
    r->cq_tail = (uint32_t *)(at + p.cq_off.tail);
    r->cqes = (struct io_uring_cqe *)(at + p.cq_off.cqes);
    r->sq_mask = p.sq_entries - 1;
    r->cq_mask = p.cq_entries - 1;
    for (uint32_t i = 0; i < p.sq_entries; i++)
        r->sq_array[i] = i;
}

static void ring_enter(ring *r, uint32_t wait_for) {
    int n = (int)syscall(__NR_io_uring_enter, r->fd, r->to_submit, wait_for, IORING_ENTER_GETEVENTS,
                         NULL, 0);
    if (n > 0) r->to_submit -= (uint32_t)n;
}

static struct io_uring_sqe *ring_next(ring *r, uint8_t opcode, int fd, int operation, int about) {
    while (r->to_submit > r->sq_mask)
        ring_enter(r, 0);
    uint32_t tail = *r->sq_tail;
    struct io_uring_sqe *e = &r->sqes[tail & r->sq_mask];
    *e = (struct io_uring_sqe){.opcode = opcode, .fd = fd};
    e->user_data = (uint64_t)about * OPERATIONS + (uint64_t)operation;
    __atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
    r->to_submit++;
    return e;
}

/* ---- Connections ------------------------------------------------------------------------------ */

static void start_accept(ring *r) {
    struct io_uring_sqe *e = ring_next(r, IORING_OP_ACCEPT, server.listener, ACCEPT, 0);
    e->ioprio = IORING_ACCEPT_MULTISHOT;
    e->accept_flags = SOCK_CLOEXEC;
}

static void start_receive(ring *r, int fd) {
    struct io_uring_sqe *e = ring_next(r, IORING_OP_RECV, fd, RECEIVE, fd);
    e->addr = (uint64_t)(uintptr_t)table[fd].buffer;
    e->len = sink ? NET_SINK : NET_BUFFER;
}

static void start_send(ring *r, int fd) {
    connection *c = &table[fd];
    struct io_uring_sqe *e = ring_next(r, IORING_OP_SEND, fd, SEND, fd);
    e->addr = (uint64_t)(uintptr_t)(c->buffer + c->done);
    e->len = c->size - c->done;
    e->msg_flags = MSG_NOSIGNAL | (linked ? MSG_WAITALL : 0);
    if (linked) {
        e->flags = IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
        start_receive(r, fd);
    }
}

static void begin(ring *r, int fd) {
    if (fd >= TABLE) {
        close(fd);
        return;
    }
    net_nodelay(fd);
    table[fd] = (connection){.buffer = malloc(sink ? NET_SINK : NET_BUFFER),
                             .sum = sink ? calloc(1, sizeof(net_sum)) : NULL};
    start_receive(r, fd);
}

static void end(int fd) {
    free(table[fd].buffer);
    free(table[fd].sum);
    table[fd].buffer = NULL;
    close(fd);
}

/* ---- Completions ------------------------------------------------------------------------------ */

static void accepted(ring *r, const struct io_uring_cqe *e) {
    static unsigned next;
    if (!(e->flags & IORING_CQE_F_MORE)) start_accept(r);
    if (e->res < 0) return;
    unsigned to = next++ % (unsigned)server.threads;
    if (to == 0) {
        begin(r, e->res);
        return;
    }
    struct io_uring_sqe *m = ring_next(r, IORING_OP_MSG_RING, rings[to].fd, DEALT, 0);
    m->len = (uint32_t)e->res;
    m->off = (uint64_t)e->res * OPERATIONS + DEALT;
    m->flags = IOSQE_CQE_SKIP_SUCCESS;
}

static void received(ring *r, int fd, int n) {
    connection *c = &table[fd];
    if (n == -ECANCELED && linked) return; /* the send before it failed, and says so */
    if (n > 0 && sink) {
        net_sum_add(c->sum, c->buffer, (size_t)n);
        start_receive(r, fd);
    } else if (n > 0) {
        c->size = (uint32_t)n;
        c->done = 0;
        start_send(r, fd);
    } else {
        net_receipt receipt = sink ? net_sum_end(c->sum) : (net_receipt){0, 0};
        if (sink && send(fd, &receipt, sizeof receipt, MSG_NOSIGNAL) < 0) perror("send");
        end(fd);
    }
}

static void sent(ring *r, int fd, int n) {
    connection *c = &table[fd];
    c->done += n > 0 ? (uint32_t)n : 0;
    if (n < 0 || linked) /* linked, only one that failed is told */
        end(fd);
    else if (c->done < c->size)
        start_send(r, fd);
    else
        start_receive(r, fd);
}

static void complete(ring *r, const struct io_uring_cqe *e) {
    int about = (int)(e->user_data / OPERATIONS);
    switch (e->user_data % OPERATIONS) {
    case ACCEPT: accepted(r, e); break;
    case DEALT: begin(r, about); break;
    case RECEIVE: received(r, about, e->res); break;
    case SEND: sent(r, about, e->res); break;
    }
}

static void *loop(void *data) {
    ring *r = data;
    ring_open(r);
    pthread_barrier_wait(&all_open);
    if (r == rings) start_accept(r);
    for (;;) {
        ring_enter(r, 1);
        uint32_t head = *r->cq_head, tail = __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE);
        for (; head != tail; head++)
            complete(r, &r->cqes[head & r->cq_mask]);
        __atomic_store_n(r->cq_head, head, __ATOMIC_RELEASE);
    }
    return NULL;
}

int main(int argc, char **argv) {
    table = calloc(TABLE, sizeof *table);
    server_begin(argc, argv, server_stop_at_once);
    linked = server_mode("linked");
    sink = server_mode("sink");
    pthread_barrier_init(&all_open, NULL, (unsigned)server.threads);
    for (int i = 1; i < server.threads; i++) {
        pthread_t t;
        net_check(pthread_create(&t, NULL, loop, &rings[i]) == 0, "a thread");
    }
    loop(&rings[0]);
}

#else

int main(void) {
    fputs("built without what it needs of io_uring\n", stderr);
    return 1;
}

#endif
