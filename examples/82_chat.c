/* SPDX-License-Identifier: MIT
 *
 * A chat: what one says, all the others hear.
 *
 *     82_chat 7000           serves at that port until it is killed: nc 127.0.0.1 7000
 *     82_chat                three guests of its own meet there
 *
 * Each session does two things at once, as the two branches of a select: one reads lines and sends them to the room, one
 * receives what the room has and writes it. When one of them ends, the other is cancelled, and the session is over.
 *
 * The room is a broadcast channel: who sends never waits. It keeps the last lines; a guest who reads so slowly that the system's
 * buffers are full, and then the room's, has missed some and is told how many. So nobody is held up by him, and he
 * costs no memory that grows.
 *
 * Sessions borrow the room. They may, because they run in a scope: it ends only when all of them have, and the room
 * is freed after that. */
#include <awake.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "listening.h"

enum { NAME = 20, LINE = 256, KEPT = 64 };

struct message {
    int from; /* who need not hear it */
    char text[NAME + LINE + 4];
};
typedef AW_BROADCAST(struct message) room;

static void say(room *room, int from, const char *format, ...) {
    struct message m = {.from = from};
    va_list args;
    va_start(args, format);
    vsnprintf(m.text, sizeof m.text, format, args);
    va_end(args);
    aw_broadcast_send(room, &m); /* how many will hear it; or that nobody is there */
}

/* ---- The server ----------------------------------------------------------------------------------- */

/* From a guest to the room. */
AW_ASYNC(int, listen_to, room *room; int id; const char *name; aw_reader * reader;
         aw_reader_future line;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->line, aw_reader_line(self->reader));
        if (self->line.out <= 0) AW_RETURN((int)self->line.out); /* also a line that is too long */
        say(self->room, self->id, "%s: %.*s\n", self->name, (int)self->reader->item.size,
            self->reader->item.data);
    }
    AW_END;
}

/* From the room to a guest. */
AW_ASYNC(int, talk_to, room *room; int id; aw_conn * conn; aw_broadcast_receiver * receiver;
         struct message m; AW_SHARE(aw_broadcast_future next; aw_transfer write;);) {
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
        AW_AWAIT(self->write, aw_write_all(self->conn, self->m.text, strlen(self->m.text)));
        if (self->write.out < 0) AW_RETURN((int)self->write.out);
    }
    AW_END;
}

/* Its output is nothing: an error is the end of one guest, not of all of them. */
AW_ASYNC(void, session, room *room; aw_conn * conn; int id; bool entered; char name[NAME + 1];
         char buf[LINE]; aw_reader reader; aw_broadcast_receiver receiver; char welcome[64];
         AW_SHARE(aw_transfer write; aw_reader_future line;
                  AW_SELECT(struct listen_to, struct talk_to) both;);) {
    AW_BEGIN;
    self->reader = aw_reader_of(self->conn, self->buf, sizeof self->buf);
    AW_AWAIT(self->write, aw_write_all(self->conn, "Your name?\n", 11));
    AW_AWAIT(self->line, aw_reader_line(&self->reader));
    if (self->line.out <= 0 || self->reader.item.size == 0) AW_RETURN_VOID;
    snprintf(self->name, sizeof self->name, "%.*s", (int)self->reader.item.size,
             self->reader.item.data);

    self->receiver = aw_broadcast_subscribe(self->room); /* hears what is said from now on */
    self->entered = true;
    say(self->room, self->id, "%s has come\n", self->name);
    snprintf(self->welcome, sizeof self->welcome, "Welcome, %s\n", self->name);
    AW_AWAIT(self->write, aw_write_all(self->conn, self->welcome, strlen(self->welcome)));
    AW_AWAIT_SELECT(self->both,
                    AW_CALL(listen_to, .room = self->room, .id = self->id, .name = self->name,
                            .reader = &self->reader),
                    AW_CALL(talk_to, .room = self->room, .id = self->id, .conn = self->conn,
                            .receiver = &self->receiver));
    AW_FINALLY;
    if (self->entered) {
        aw_broadcast_unsubscribe(self->room, &self->receiver);
        say(self->room, self->id, "%s has gone\n", self->name);
    }
    aw_close(self->conn);
    AW_END;
}

AW_ASYNC(int, accept_all, aw_scope *scope; room * room; aw_listener * listener; int id;
         aw_conn * conn; aw_accept_future accept;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->accept, aw_accept(self->listener, &self->conn));
        if (self->accept.out < 0) AW_RETURN(self->accept.out);
        aw_conn_buffers(self->conn, 0, 16384); /* as much may wait for one who does not read */
        aw_scope_spawn(self->scope,
                       AW_CALL(session, .room = self->room, .conn = self->conn, .id = ++self->id));
    }
    AW_END;
}

AW_ASYNC(int, chat, aw_listener *listener; room room; AW_SCOPE(struct accept_all) sessions;) {
    AW_BEGIN;
    if (aw_broadcast_init(&self->room, KEPT)) AW_RETURN(-ENOMEM);
    AW_AWAIT_SCOPE(self->sessions,
                   AW_CALL(accept_all, .room = &self->room, .listener = self->listener));
    AW_RETURN(self->sessions.out);
    AW_FINALLY;
    if (AW_STARTED) aw_broadcast_free(&self->room);
    aw_listener_close(self->listener);
    AW_END;
}

/* ---- Guests, in a fiber: a function that waits is called as any other ----------------------------- */

struct guest {
    const char *name;
    aw_conn *conn;
    aw_reader reader;
    char buf[2 * LINE], line[2 * LINE];
};

/* The next line that she hears, or what went wrong. */
static const char *hears(struct guest *g) {
    ssize_t n = aw_await(aw_reader_line(&g->reader));
    if (n <= 0) return n ? strerror((int)-n) : "the end";
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

/* Ann goes on and on. Bob hears every word of it, while Eve reads nothing at all; and then Eve reads. */
static void monologue(struct guest *ann, struct guest *bob, struct guest *eve) {
    enum { WORDS = 1000 };
    char text[LINE - NAME], wanted[2 * LINE];
    int heard = 0, missed = 0;
    for (int i = 1; i <= WORDS; i++) {
        snprintf(text, sizeof text, "%d %0200d", i, 0);
        says(ann, text);
        snprintf(wanted, sizeof wanted, "ann: %s", text);
        heard += strcmp(hears(bob), wanted) == 0;
    }
    printf("bob has heard %d of %d lines\n", heard, WORDS);

    heard = 0;
    do {
        int lines;
        if (sscanf(hears(eve), "(%d lines missed)", &lines) == 1)
            missed += lines;
        else
            heard++;
    } while (strcmp(eve->line, wanted) != 0 && heard <= WORDS);
    printf("eve has missed %s, and %d are lost without a word\n", missed ? "many" : "none",
           WORDS - heard - missed);
}

AW_FIBER(int, demo) {
    aw_addr at;
    aw_listener *listener;
    struct guest ann = {0}, bob = {0}, eve = {0};
    int error = listen_at(&listener, "0", NULL, &at);
    if (error) return error;
    struct chat *server = aw_spawn(AW_CALL(chat, .listener = listener));

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

    /* The server hangs up on who is left. */
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
    return aw_run(AW_CALL(chat, .listener = listener)) != 0;
}
