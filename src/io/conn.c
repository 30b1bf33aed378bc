/* SPDX-License-Identifier: MIT
 *
 * What all kinds of connections share: the futures and calls, which dispatch to the connection's
 * type. */
#include <awake/io.h>

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

void aw_close(aw_conn *c) {
    if (c) c->type->close(c);
}

void aw_conn_keep(aw_conn *c) {
    if (c) c->type->keep(c);
}

void aw_conn_drop(aw_conn *c) {
    if (c) c->type->drop(c);
}

static aw_poll io_poll(aw_future *self, aw_cx *cx) {
    aw_io *op = (aw_io *)self;
    if (AW__LIKELY(op->conn)) return op->conn->type->poll(op, cx);
    op->out = -EBADF; /* it was never opened */
    return AW_READY;
}

static aw_poll io_cancel(aw_future *self, aw_cx *cx) {
    aw_io *op = (aw_io *)self;
    return op->conn ? op->conn->type->cancel(op, cx) : AW_CANCELLED;
}

/* An accepted connection that the program did not take. */
static void io_discard(aw_future *self) {
    const aw_io *op = (const aw_io *)self;
    if (op->wants == AW_IO_ACCEPT && op->out >= 0) close(op->out);
}

static void io_describe(const aw_future *self, char *buf, size_t size) {
    static const char *const calls[] = {"read",     "write",    "readv",    "writev",
                                        "shutdown", "readable", "writable", "accept",
                                        "connect",  "recvmsg",  "sendmsg"};
    const aw_io *op = (const aw_io *)self;
    int fd = aw_conn_fd(op->conn);
    const char *call = op->wants <= AW_IO_SENDMSG ? calls[op->wants] : "?";
    if (fd >= 0)
        snprintf(buf, size, "%s of descriptor %d", call, fd);
    else
        snprintf(buf, size, "%s of a %s", call, op->conn->type->name);
}

const aw_future_type aw_io_type = {
    AW_TYPE_OF(aw_io, "io"), .flags = AW_OUT_ERRNO, .poll = io_poll,
    .cancel = io_cancel,     .discard = io_discard, .describe = io_describe,
};
