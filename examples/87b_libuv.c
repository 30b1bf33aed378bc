/* SPDX-License-Identifier: MIT
 *
 * Inside libuv's loop, for programs that already use its handles and callbacks.
 *
 * A uv_poll_t watches the descriptor of the runtime. Libuv's loop ends when no handle is left, so
 * the last task closes both handles.
 *
 * Notice that no handle is left at the end: the loop can be closed. */
/* needs: libuv */
#include <uv.h>

#include "embedded.h"

static uv_timer_t timer;
static uv_poll_t watch;
static aw_runtime *rt;
static aw_addr server;
static int ticks;

static void on_timer(uv_timer_t *handle);

/* Called by a task. */
static void answered(int n) {
    if (n < 3) {
        uv_timer_start(&timer, on_timer, 20, 0);
    } else {
        uv_close((uv_handle_t *)&timer, NULL);
        uv_close((uv_handle_t *)&watch, NULL);
    }
}

static void on_timer(uv_timer_t *handle) {
    (void)handle;
    printf("libuv: tick %d\n", ++ticks);
    aw_task_detach(aw_spawn_on(rt, AW_CALL(ask, .to = server, .n = ticks, .then = answered)));
}

static void on_readable(uv_poll_t *handle, int status, int events) {
    (void)handle;
    (void)events;
    if (status == 0) aw_runtime_run_once(rt);
}

int main(void) {
    uv_loop_t loop;
    int fd = embedded_runtime(&rt);
    if (fd < 0 || serve_squares(rt, &server)) return 1;
    uv_loop_init(&loop);
    uv_poll_init(&loop, &watch, fd);
    uv_poll_start(&watch, UV_READABLE, on_readable);
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_timer, 20, 0);
    uv_run(&loop, UV_RUN_DEFAULT);

    printf("libuv: the loop has ended\n");
    aw_runtime_free(rt); /* cancels the remaining task, the server */
    printf("libuv: %s\n", uv_loop_close(&loop) ? "handles are left" : "no handle is left");
    return 0;
}
