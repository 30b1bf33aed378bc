/* SPDX-License-Identifier: MIT
 *
 * A minimal HTTP server: it answers with the path of the request.
 *
 *     86_http 8080    serves that port until it is killed: curl http://127.0.0.1:8080/some/page
 *     86_http 8080 5  the same, with a timeout of 5 seconds instead of 30
 *     86_http         sends itself two requests
 *
 * A request is read line by line through a buffer. Bytes after a line stay in the buffer for the
 * next one. A line that does not fit is an error, not an overflow. One deadline covers the whole
 * request, so a client that sends a byte now and then cannot keep the connection open. The answer
 * has a deadline too, for a client that does not read. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

#include "listening.h"

/* ---- The server ------------------------------------------------------------------------------ */

/* Reads a whole request and stores its path. 0 or a negative errno. */
static int read_request(aw_conn *conn, char path[256], uint64_t deadline) {
    char buf[4096];
    aw_reader r = aw_reader_of(conn, buf, sizeof buf);
    ssize_t n;
    path[0] = 0;
    while ((n = aw_await_by(deadline, aw_reader_line(&r))) > 0 && r.item.size > 0) {
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)r.item.size, r.item.data);
        if (!path[0] && sscanf(line, "GET %255s HTTP/1.", path) != 1) return -EBADMSG;
    }
    if (n < 0) return (int)n;
    return n > 0 && path[0] ? 0 : -EBADMSG; /* the stream ended before the empty line */
}

AW_FIBER(int, answer, aw_conn *conn; uint64_t timeout;) {
    char path[256], head[128], body[300];
    int error = read_request(self->conn, path, aw_now(NULL) + self->timeout);
    if (error && error != -EBADMSG) goto out; /* the connection is broken: send no answer */
    int size = error ? snprintf(body, sizeof body, "Only GET is supported\n")
                     : snprintf(body, sizeof body, "You asked for %s\n", path);
    int head_size = snprintf(
        head, sizeof head, "HTTP/1.0 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n",
        error ? "400 Bad Request" : "200 OK", size);
    struct iovec parts[] = {{head, (size_t)head_size}, {body, (size_t)size}};
    error = (int)aw_await_for(self->timeout, aw_writev_all(self->conn, parts, 2));
    if (error == -ETIMEDOUT) aw_conn_reset_on_close(self->conn, true); /* it does not read */
out:
    aw_close(self->conn);
    return error;
}
AW_FIBER_DROP(answer) {
    aw_close(self->conn);
}

AW_FIBER(int, server, aw_listener *listener; uint64_t timeout;) {
    aw_conn *conn;
    int error;
    while ((error = aw_await(aw_accept(self->listener, &conn))) == 0)
        aw_task_detach(aw_spawn(AW_CALL(answer, .conn = conn, .timeout = self->timeout)));
    aw_listener_close(self->listener);
    return error;
}
AW_FIBER_DROP(server) {
    aw_listener_close(self->listener);
}

/* ---- A client -------------------------------------------------------------------------------- */

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
    aw_task_detach(aw_spawn(AW_CALL(server, .listener = listener, .timeout = parse_timeout(NULL))));
    error = aw_await(AW_CALL(ask, .to = at, .request = "GET /a/page HTTP/1.0\r\n\r\n"));
    if (!error) error = aw_await(AW_CALL(ask, .to = at, .request = "BREW /coffee HTTP/1.0\r\n"));
    return error;
}

int main(int argc, char **argv) {
    if (argc < 2) return aw_run(AW_CALL(demo)) != 0;
    aw_listener *listener;
    if (listen_at(&listener, argv[1], NULL, NULL)) return 1;
    return aw_run(AW_CALL(server, .listener = listener, .timeout = parse_timeout(argv[2]))) != 0;
}
