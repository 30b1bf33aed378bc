/* SPDX-License-Identifier: MIT
 *
 * Just enough of HTTP to answer: it says what it was asked for.
 *
 *     86_http 8080           serves at that port until it is killed: curl http://127.0.0.1:8080/some/thing
 *     86_http                asks itself
 *
 * A request is read line by line through a buffer. What came with the line stays there for the next one; a line that does
 * not fit is an error and no overflow. One deadline is for the whole request: a client that sends one byte now and then
 * does not keep the server for ever. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

#include "listening.h"

/* ---- The server ----------------------------------------------------------------------------------- */

/* The path, when a whole request has come: 0, or a negative errno. */
static int read_request(aw_conn *conn, char path[256]) {
    char buf[4096];
    aw_reader r = aw_reader_of(conn, buf, sizeof buf);
    uint64_t deadline = aw_now(NULL) + AW_SEC(10);
    ssize_t n;
    path[0] = 0;
    while ((n = aw_await_by(deadline, aw_reader_line(&r))) > 0 && r.item.size > 0) {
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)r.item.size, r.item.data);
        if (!path[0] && sscanf(line, "GET %255s HTTP/1.", path) != 1) return -EBADMSG;
    }
    if (n < 0) return (int)n;
    return n > 0 && path[0] ? 0 : -EBADMSG; /* it ended before the empty line */
}

AW_FIBER(int, answer, aw_conn *conn;) {
    char path[256], head[128], body[300];
    int error = read_request(self->conn, path);
    if (error && error != -EBADMSG) goto out; /* nobody is there to be answered */
    int size = error ? snprintf(body, sizeof body, "I understand only GET\n")
                     : snprintf(body, sizeof body, "You asked for %s\n", path);
    int head_size = snprintf(
        head, sizeof head, "HTTP/1.0 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n",
        error ? "400 Bad Request" : "200 OK", size);
    struct iovec parts[] = {{head, (size_t)head_size}, {body, (size_t)size}};
    error = (int)aw_await(aw_writev_all(self->conn, parts, 2));
out:
    aw_close(self->conn);
    return error;
}
AW_FIBER_DROP(answer) {
    aw_close(self->conn);
}

AW_FIBER(int, server, aw_listener *listener;) {
    aw_conn *conn;
    int error;
    while ((error = aw_await(aw_accept(self->listener, &conn))) == 0)
        aw_task_detach(aw_spawn(AW_CALL(answer, .conn = conn)));
    aw_listener_close(self->listener);
    return error;
}
AW_FIBER_DROP(server) {
    aw_listener_close(self->listener);
}

/* ---- A client ------------------------------------------------------------------------------------- */

AW_FIBER(int, ask, aw_addr to; const char *request;) {
    aw_conn *conn;
    char buf[512];
    aw_bytes all = AW_BYTES_INIT;
    int error = aw_await(aw_connect(&conn, &self->to));
    if (error) return error;
    ssize_t n = aw_await(aw_write_all(conn, self->request, strlen(self->request)));
    aw_reader r = aw_reader_of(conn, buf, sizeof buf);
    if (n >= 0) n = aw_await(aw_reader_read_to_end(&r, &all, 10000));
    if (n >= 0) printf("%.*s", (int)all.size, all.data);
    aw_bytes_free(&all);
    aw_close(conn);
    return n < 0 ? (int)n : 0;
}

AW_FIBER(int, demo) {
    aw_addr at;
    aw_listener *listener;
    int error = listen_at(&listener, "0", NULL, &at);
    if (error) return error;
    aw_task_detach(aw_spawn(AW_CALL(server, .listener = listener)));
    error = aw_await(AW_CALL(ask, .to = at, .request = "GET /a/page HTTP/1.0\r\n\r\n"));
    if (!error) error = aw_await(AW_CALL(ask, .to = at, .request = "BREW /coffee HTTP/1.0\r\n"));
    return error;
}

int main(int argc, char **argv) {
    if (argc < 2) return aw_run(AW_CALL(demo)) != 0;
    aw_listener *listener;
    if (listen_at(&listener, argv[1], NULL, NULL)) return 1;
    return aw_run(AW_CALL(server, .listener = listener)) != 0;
}
