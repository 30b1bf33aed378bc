/* SPDX-License-Identifier: MIT
 *
 * The upper bound for io_uring: a hand-written server on the plain system calls. Each thread has
 * its own ring (SINGLE_ISSUER, DEFER_TASKRUN), with a multishot accept, and a receive and a send
 * per message. Submissions go into the call that waits. The first thread accepts, and distributes
 * the connections round-robin by messages between the rings.
 *
 *     echo      a receive, then a send, and so on: like a function that awaits both
 *     linked    the next receive is submitted with the send and linked to it: one completion per
 *               message
 *
 * An argument after THREADS selects variants of echo, separated by commas:
 *
 *     accept-once    one accept per connection
 *     accept-many    ... 16 of them in flight, like 16 functions that accept
 *     poll-first     a receive waits for data before its first attempt
 *     ready          a poll, then a receive, into a buffer that exists only until it has been sent
 *     provided       a receive without a buffer: the kernel takes a provided one when there is data
 *     multishot      ... and one receive for all messages of a connection
 *     close          connections are closed through the ring
 *     direct         connections are registered files of the ring without a descriptor, and are
 *                    closed through the ring
 *     coop           several threads may use the ring, which does not interrupt them (COOP_TASKRUN,
 *                    TASKRUN_FLAG)
 *     no-flags       a ring without flags
 *     nothing        none of these
 *
 * With this argument connections inherit TCP_NODELAY from the listener, because direct ones cannot
 * set it. */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "server.h"

#ifdef IORING_SETUP_DEFER_TASKRUN /* Linux 6.1 headers or newer */

enum { ENTRIES = 512, COMPLETIONS = 4096, THREADS = 16, TABLE = 20000 };
enum { BUFFERS = 2048 /* provided per ring */, ACCEPTS = 16 };
enum { ACCEPT, DEALT, READY, RECEIVE, SEND, CLOSE, OPERATIONS };

typedef struct connection {
    char *buffer;
    net_sum *sum;
    uint32_t size, done;
    bool receives; /* a multishot receive is in flight */
    bool over;     /* no further messages: close */
} connection;

typedef struct ring {
    int fd;
    uint32_t to_submit, sq_mask, cq_mask;
    uint32_t *sq_head, *sq_tail, *sq_array, *cq_head, *cq_tail;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    struct io_uring_buf_ring *provided; /* buffers owned by the kernel */
    uint16_t given;
    char *buffers;
} ring;

static connection *table; /* indexed by descriptor */
static ring rings[THREADS];
static pthread_barrier_t all_open;
static bool linked, sink;
static struct {
    bool any, accept_once, accept_many, poll_first, ready, provided, multishot, close, direct, coop,
        no_flags;
} with;

static void try_out(const char *words) {
    static const struct {
        const char *name;
        bool *to;
    } names[] = {{"accept-once", &with.accept_once},
                 {"accept-many", &with.accept_many},
                 {"poll-first", &with.poll_first},
                 {"ready", &with.ready},
                 {"provided", &with.provided},
                 {"multishot", &with.multishot},
                 {"close", &with.close},
                 {"direct", &with.direct},
                 {"coop", &with.coop},
                 {"no-flags", &with.no_flags},
                 {"nothing", &with.any}};
    for (const char *word = words; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        size_t i = 0, count = sizeof names / sizeof *names, length = strcspn(word, ",");
        while (i < count &&
               (strlen(names[i].name) != length || strncmp(word, names[i].name, length) != 0))
            i++;
        errno = EINVAL;
        net_check(i < count, word);
        *names[i].to = true;
    }
    with.any = true;
    with.accept_once |= with.accept_many;
    with.provided |= with.multishot;
    with.close |= with.direct;
}

/* ---- Ring ------------------------------------------------------------------------------------ */

static void *map(int fd, size_t size, uint64_t what) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)what);
    net_check(at != MAP_FAILED, "mmap of a ring");
    return at;
}

static void ring_register(ring *r, unsigned what, void *with_this, unsigned count) {
    net_check(syscall(__NR_io_uring_register, r->fd, what, with_this, count) == 0,
              "io_uring_register");
}

/* Hands a buffer to the kernel. The tail of the buffer ring overlays the last two bytes of its
 * first entry. */
static void provide(ring *r, char *buffer) {
    struct io_uring_buf *b = (struct io_uring_buf *)r->provided + r->given % BUFFERS;
    b->addr = (uint64_t)(uintptr_t)buffer;
    b->len = NET_BUFFER;
    b->bid = (uint16_t)((buffer - r->buffers) / NET_BUFFER);
    __atomic_store_n(&r->provided->tail, ++r->given, __ATOMIC_RELEASE);
}

static void provide_all(ring *r) {
    size_t size = BUFFERS * sizeof(struct io_uring_buf);
    char *at = mmap(NULL, size + (size_t)BUFFERS * NET_BUFFER, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    net_check(at != MAP_FAILED, "mmap of buffers");
    r->provided = (struct io_uring_buf_ring *)(void *)at;
    r->buffers = at + size;
    struct io_uring_buf_reg group = {.ring_addr = (uint64_t)(uintptr_t)at, .ring_entries = BUFFERS};
    ring_register(r, IORING_REGISTER_PBUF_RING, &group, 1);
    for (size_t i = 0; i < BUFFERS; i++)
        provide(r, r->buffers + i * NET_BUFFER);
}

static void ring_open(ring *r) {
    uint32_t flags = with.no_flags ? 0
                     : with.coop   ? IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG
                                   : IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                       IORING_SETUP_COOP_TASKRUN;
    struct io_uring_params p = {.flags = flags | IORING_SETUP_CQSIZE, .cq_entries = COMPLETIONS};
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
    if (with.provided) provide_all(r);
    if (with.direct) {
        struct io_uring_rsrc_register files = {.nr = TABLE, .flags = IORING_RSRC_REGISTER_SPARSE};
        ring_register(r, IORING_REGISTER_FILES2, &files, sizeof files);
    }
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

/* ---- Connections ----------------------------------------------------------------------------- */

static void start_accept(ring *r) {
    struct io_uring_sqe *e = ring_next(r, IORING_OP_ACCEPT, server.listener, ACCEPT, 0);
    if (!with.accept_once) e->ioprio = IORING_ACCEPT_MULTISHOT;
    if (with.direct)
        e->file_index = IORING_FILE_INDEX_ALLOC;
    else
        e->accept_flags = SOCK_CLOEXEC;
}

static struct io_uring_sqe *next_of(ring *r, uint8_t opcode, int fd, int operation) {
    struct io_uring_sqe *e = ring_next(r, opcode, fd, operation, fd);
    if (with.direct) e->flags = IOSQE_FIXED_FILE;
    return e;
}

static void start_receive(ring *r, int fd) {
    connection *c = &table[fd];
    if (with.ready && !c->buffer) {
        next_of(r, IORING_OP_POLL_ADD, fd, READY)->poll_events = POLLIN;
        return;
    }
    struct io_uring_sqe *e = next_of(r, IORING_OP_RECV, fd, RECEIVE);
    if (with.poll_first) e->ioprio |= IORING_RECVSEND_POLL_FIRST;
    if (with.multishot) e->ioprio |= IORING_RECV_MULTISHOT;
    c->receives = with.multishot;
    if (with.provided) {
        e->flags |= IOSQE_BUFFER_SELECT;
        return;
    }
    e->addr = (uint64_t)(uintptr_t)c->buffer;
    e->len = sink ? NET_SINK : NET_BUFFER;
}

static void start_send(ring *r, int fd) {
    connection *c = &table[fd];
    struct io_uring_sqe *e = next_of(r, IORING_OP_SEND, fd, SEND);
    e->addr = (uint64_t)(uintptr_t)(c->buffer + c->done);
    e->len = c->size - c->done;
    e->msg_flags = MSG_NOSIGNAL | (linked ? MSG_WAITALL : 0);
    if (linked) {
        e->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
        start_receive(r, fd);
    }
}

static void begin(ring *r, int fd) {
    if (fd >= TABLE) {
        close(fd);
        return;
    }
    if (!with.any) net_nodelay(fd);
    table[fd] = (connection){.sum = sink ? calloc(1, sizeof(net_sum)) : NULL};
    if (!with.provided && !with.ready) table[fd].buffer = malloc(sink ? NET_SINK : NET_BUFFER);
    start_receive(r, fd);
}

/* Releases a buffer that exists only while it holds data. */
static void drop_buffer(ring *r, connection *c) {
    if (c->buffer && with.provided) provide(r, c->buffer);
    if (with.ready) free(c->buffer);
    if (with.provided || with.ready) c->buffer = NULL;
}

static void end(ring *r, int fd) {
    drop_buffer(r, &table[fd]);
    free(table[fd].buffer);
    free(table[fd].sum);
    table[fd].buffer = NULL;
    if (!with.close) {
        close(fd);
        return;
    }
    struct io_uring_sqe *e = ring_next(r, IORING_OP_CLOSE, with.direct ? 0 : fd, CLOSE, fd);
    if (with.direct) e->file_index = (uint32_t)fd + 1;
    e->flags = IOSQE_CQE_SKIP_SUCCESS;
}

/* ---- Completions ----------------------------------------------------------------------------- */

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

static void received(ring *r, int fd, const struct io_uring_cqe *e) {
    connection *c = &table[fd];
    int n = e->res;
    if (n == -ECANCELED && linked) return; /* the send failed, and has its own completion */
    c->receives = e->flags & IORING_CQE_F_MORE;
    if (n == -ENOBUFS) { /* sends in flight will return buffers */
        if (!c->size) start_receive(r, fd);
        return;
    }
    if (with.multishot && c->size) { /* the answer is still being sent */
        net_check(n <= 0, "one message at a time");
        c->over = true;
        return;
    }
    if (e->flags & IORING_CQE_F_BUFFER)
        c->buffer = r->buffers + (size_t)(e->flags >> IORING_CQE_BUFFER_SHIFT) * NET_BUFFER;
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
        end(r, fd);
    }
}

static void sent(ring *r, int fd, int n) {
    connection *c = &table[fd];
    c->done += n > 0 ? (uint32_t)n : 0;
    if (n < 0 || linked) c->over = true; /* linked: only a failed send completes */
    if (!c->over && c->done < c->size) {
        start_send(r, fd);
        return;
    }
    c->size = 0;
    drop_buffer(r, c);
    if (c->receives) return; /* the receive reports the end */
    if (c->over)
        end(r, fd);
    else
        start_receive(r, fd);
}

static void ready(ring *r, int fd) {
    table[fd].buffer = malloc(NET_BUFFER);
    start_receive(r, fd);
}

static void complete(ring *r, const struct io_uring_cqe *e) {
    int about = (int)(e->user_data / OPERATIONS);
    switch (e->user_data % OPERATIONS) {
    case ACCEPT: accepted(r, e); break;
    case DEALT: begin(r, about); break;
    case READY: ready(r, about); break;
    case RECEIVE: received(r, about, e); break;
    case SEND: sent(r, about, e->res); break;
    case CLOSE: net_check(false, "close of a connection"); break; /* only if it failed */
    }
}

static void *loop(void *data) {
    ring *r = data;
    if (r != rings) ring_open(r);
    pthread_barrier_wait(&all_open);
    for (int i = 0; r == rings && i < (with.accept_many ? ACCEPTS : 1); i++)
        start_accept(r);
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
    if (argc > 3) try_out(argv[3]);
    /* First, so that a missing feature is reported before the port. */
    ring_open(&rings[0]);
    server_begin(argc, argv, server_stop_at_once);
    linked = server_mode("linked");
    sink = server_mode("sink");
    net_check(!with.any || server_mode("echo"), "variants need mode echo");
    net_check(!with.direct || server.threads == 1, "direct needs one thread");
    if (with.any) net_nodelay(server.listener);
    pthread_barrier_init(&all_open, NULL, (unsigned)server.threads);
    for (int i = 1; i < server.threads; i++) {
        pthread_t t;
        net_check(pthread_create(&t, NULL, loop, &rings[i]) == 0, "a thread");
    }
    loop(&rings[0]);
}

#else

int main(void) {
    fputs("built without io_uring: needs Linux 6.1 headers\n", stderr);
    return 1;
}

#endif
