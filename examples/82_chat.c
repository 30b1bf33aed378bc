/* SPDX-License-Identifier: MIT
 *
 * A chat: every line of a guest is sent to all other guests.
 *
 *     82_chat 7000           serves that port until it is killed: nc 127.0.0.1 7000
 *     82_chat 7000 5         the same, with a timeout of 5 seconds instead of 30
 *     82_chat                three guests of its own meet there
 *
 * Each session does two things at once, as the two branches of a select: one reads lines and sends
 * them to the room, the other receives from the room and writes. When one of them ends, the other
 * is cancelled and the session ends.
 *
 * The room is a broadcast channel: a sender never waits. It keeps the latest lines. A guest that
 * reads too slowly fills the kernel's buffers, then misses lines, and is told how many. So a slow
 * guest delays no other guest, and uses a fixed amount of memory.
 *
 * A guest may stay silent for hours once it has given its name. A guest that does not read is
 * dropped when a write to it has timed out. Keepalive detects a guest that is gone without closing
 * its connection.
 *
 * Sessions borrow the room. That is safe because they run in a scope: it ends only when all of them
 * have ended, and the room is freed after that. */
#include <awake.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "listening.h"

enum { NAME = 20, LINE = 256, KEPT = 64 };

struct message {
    int from; /* the guest that sent it */
    char text[NAME + LINE + 4];
};
typedef AW_BROADCAST(struct message) room;

static void say(room *room, int from, const char *format, ...) {
    struct message m = {.from = from};
    va_list args;
    va_start(args, format);
    vsnprintf(m.text, sizeof m.text, format, args);
    va_end(args);
    aw_broadcast_send(room, &m); /* the result is the number of receivers: not needed */
}

/* ---- The server ------------------------------------------------------------------------------ */

/* From a guest to the room. */
struct listen_to {
    AW_FRAME(int);
    room *room;
    int id;
    const char *name;
    aw_reader *reader;
    aw_reader_future line;
};
AW_ASYNC_STATIC(listen_to) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->line, aw_reader_line(self->reader));
        /* The end of the stream, an error, or a line that is too long. */
        if (self->line.out <= 0) AW_RETURN((int)self->line.out);
        say(self->room, self->id, "%s: %.*s\n", self->name, (int)self->reader->item.size,
            self->reader->item.data);
    }
    AW_END;
}

/* From the room to a guest. */
struct talk_to {
    AW_FRAME(int);
    room *room;
    int id;
    aw_conn *conn;
    aw_broadcast_receiver *receiver;
    uint64_t timeout;
    struct message m;
    AW_SHARE(aw_broadcast_future next; AW_TIMEOUT(aw_transfer) write;);
};
AW_ASYNC_STATIC(talk_to) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->next, aw_broadcast_recv(self->room, self->receiver, &self->m));
        if (self->next.out == -EOVERFLOW) {
            snprintf(self->m.text, sizeof self->m.text, "(%d lines missed)\n",
                     (int)self->receiver->lag);
        } else if (self->next.out < 0) {
            AW_RETURN(self->next.out);
        } else if (self->m.from == self->id) {
            continue;
        }
        AW_AWAIT_FOR(self->write, self->timeout,
                     aw_write_all(self->conn, self->m.text, strlen(self->m.text)));
        if (self->write.out < 0) { /* -ETIMEDOUT: this guest does not read */
            aw_conn_reset_on_close(self->conn, true);
            AW_RETURN(self->write.out);
        }
        if (self->write.inner.out < 0) AW_RETURN((int)self->write.inner.out);
    }
    AW_END;
}

/* Has no output: an error ends one session, not the scope. */
struct session {
    AW_FRAME(void);
    room *room;
    aw_conn *conn;
    int id;
    uint64_t timeout;
    bool entered;
    char name[NAME + 1];
    char buf[LINE];
    aw_reader reader;
    aw_broadcast_receiver receiver;
    char welcome[64];
    AW_SHARE(aw_transfer write; AW_TIMEOUT(aw_reader_future) line;
             AW_SELECT(struct listen_to, struct talk_to) both;);
};
AW_ASYNC_STATIC(session) {
    AW_BEGIN;
    self->reader = aw_reader_of(self->conn, self->buf, sizeof self->buf);
    AW_AWAIT(self->write, aw_write_all(self->conn, "Your name?\n", 11));
    AW_AWAIT_FOR(self->line, self->timeout, aw_reader_line(&self->reader));
    if (self->line.out < 0 || self->line.inner.out <= 0) AW_RETURN_VOID;
    if (self->reader.item.size == 0) AW_RETURN_VOID;
    snprintf(self->name, sizeof self->name, "%.*s", (int)self->reader.item.size,
             self->reader.item.data);

    self->receiver = aw_broadcast_subscribe(self->room); /* receives lines from now on */
    self->entered = true;
    say(self->room, self->id, "%s has come\n", self->name);
    snprintf(self->welcome, sizeof self->welcome, "Welcome, %s\n", self->name);
    AW_AWAIT(self->write, aw_write_all(self->conn, self->welcome, strlen(self->welcome)));
    AW_AWAIT_SELECT(self->both,
                    AW_CALL(listen_to, .room = self->room, .id = self->id, .name = self->name,
                            .reader = &self->reader),
                    AW_CALL(talk_to, .room = self->room, .id = self->id, .conn = self->conn,
                            .receiver = &self->receiver, .timeout = self->timeout));
    AW_FINALLY;
    if (self->entered) {
        aw_broadcast_unsubscribe(self->room, &self->receiver);
        say(self->room, self->id, "%s has gone\n", self->name);
    }
    aw_close(self->conn);
    AW_END;
}

struct accept_all {
    AW_FRAME(int);
    aw_scope *scope;
    room *room;
    aw_listener *listener;
    uint64_t timeout;
    int id;
    aw_conn *conn;
    aw_accept_future accept;
};
AW_ASYNC_STATIC(accept_all) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->accept, aw_accept(self->listener, &self->conn));
        if (self->accept.out < 0) AW_RETURN(self->accept.out);
        aw_conn_buffers(self->conn, 0, 16384);    /* limits the kernel memory of a slow guest */
        aw_conn_keepalive(self->conn, 60, 10, 3); /* detects a dead peer after 90 s */
        aw_scope_spawn(self->scope, AW_CALL(session, .room = self->room, .conn = self->conn,
                                            .id = ++self->id, .timeout = self->timeout));
    }
    AW_END;
}

struct chat {
    AW_FRAME(int);
    aw_listener *listener;
    uint64_t timeout;
    room room;
    AW_SCOPE(struct accept_all) sessions;
};
AW_ASYNC_STATIC(chat) {
    AW_BEGIN;
    if (aw_broadcast_init(&self->room, KEPT)) AW_RETURN(-ENOMEM);
    AW_AWAIT_SCOPE(self->sessions, AW_CALL(accept_all, .room = &self->room,
                                           .listener = self->listener, .timeout = self->timeout));
    AW_RETURN(self->sessions.out);
    AW_FINALLY;
    if (AW_STARTED) aw_broadcast_free(&self->room);
    aw_listener_close(self->listener);
    AW_END;
}

/* ---- Guests, in a fiber: plain functions that wait ------------------------------------------- */

struct guest {
    const char *name;
    aw_conn *conn;
    aw_reader reader;
    char buf[2 * LINE], line[2 * LINE];
};

/* The next line that the guest receives, or an error text. */
static const char *hears(struct guest *g) {
    ssize_t n = aw_await(aw_reader_line(&g->reader));
    if (n <= 0) return n ? strerror((int)-n) : "end of stream";
    snprintf(g->line, sizeof g->line, "%.*s", (int)g->reader.item.size, g->reader.item.data);
    return g->line;
}

static void says(struct guest *g, const char *text) {
    struct iovec parts[] = {{(void *)(uintptr_t)text, strlen(text)}, {"\n", 1}};
    aw_await(aw_writev_all(g->conn, parts, 2));
}

static int enters(struct guest *g, const char *name, const aw_addr *at) {
    g->name = name;
    int error = aw_await(aw_connect(&g->conn, at));
    if (error) return error;
    g->reader = aw_reader_of(g->conn, g->buf, sizeof g->buf);
    hears(g); /* Your name? */
    says(g, name);
    printf("%s hears: %s\n", name, hears(g));
    return 0;
}

/* Ann sends many lines. Bob reads all of them. Eve reads nothing until Ann is done. */
static void monologue(struct guest *ann, struct guest *bob, struct guest *eve) {
    enum { LINES = 1000 };
    char text[LINE - NAME], expected[2 * LINE];
    int heard = 0, missed = 0;
    for (int i = 1; i <= LINES; i++) {
        snprintf(text, sizeof text, "%d %0200d", i, 0);
        says(ann, text);
        snprintf(expected, sizeof expected, "ann: %s", text);
        heard += strcmp(hears(bob), expected) == 0;
    }
    printf("bob heard %d of %d lines\n", heard, LINES);

    heard = 0;
    do {
        int count;
        if (sscanf(hears(eve), "(%d lines missed)", &count) == 1)
            missed += count;
        else
            heard++;
    } while (strcmp(eve->line, expected) != 0 && heard <= LINES);
    printf("eve missed %s, and %d lines are unaccounted for\n", missed ? "many" : "none",
           LINES - heard - missed);
}

AW_FIBER(int, demo) {
    aw_addr at;
    aw_listener *listener;
    struct guest ann = {0}, bob = {0}, eve = {0};
    int error = listen_at(&listener, "0", NULL, &at);
    if (error) return error;
    struct chat *server = aw_spawn(
        AW_CALL(chat, .listener = listener, .timeout = parse_timeout(NULL)));

    if (!error) error = enters(&ann, "ann", &at);
    if (!error) error = enters(&bob, "bob", &at);
    if (!error) {
        printf("ann hears: %s\n", hears(&ann));
        says(&ann, "hello, bob");
        printf("bob hears: %s\n", hears(&bob));
        error = enters(&eve, "eve", &at);
    }
    if (!error) {
        aw_conn_buffers(eve.conn, 4096, 0);
        printf("ann hears: %s\n", hears(&ann));
        printf("bob hears: %s\n", hears(&bob));
        monologue(&ann, &bob, &eve);
        aw_close(bob.conn);
        bob.conn = NULL;
        printf("ann hears: %s\n", hears(&ann));
        aw_close(eve.conn);
        eve.conn = NULL;
        printf("ann hears: %s\n", hears(&ann));
    }

    /* The server closes the remaining connections. */
    aw_task_abort(server);
    aw_await(aw_task_join(server));
    aw_task_drop(server);
    if (!error) printf("ann hears: %s\n", hears(&ann));
    aw_close(ann.conn);
    aw_close(bob.conn);
    aw_close(eve.conn);
    return error;
}

int main(int argc, char **argv) {
    if (argc < 2) return aw_run(AW_CALL(demo)) != 0;
    aw_listener *listener;
    if (listen_at(&listener, argv[1], NULL, NULL)) return 1;
    return aw_run(AW_CALL(chat, .listener = listener, .timeout = parse_timeout(argv[2]))) != 0;
}
