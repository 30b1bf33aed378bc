/* SPDX-License-Identifier: MIT
 *
 * Inside GLib's main loop, as in a program with windows.
 *
 * GLib watches one descriptor, and calls aw_runtime_run_once when it is readable: a task was
 * spawned or woken, a timer is due, or a descriptor is ready. Neither side knows more about the
 * other. Both use one thread, so nothing needs a lock: callbacks of GLib spawn tasks, and tasks
 * call GLib.
 *
 * Notice the order: each timer of GLib spawns a task, and each task starts the next timer at its
 * end. */
/* needs: glib-2.0 */
#include <glib-unix.h>
#include <glib.h>

#include "embedded.h"

static GMainLoop *loop;
static aw_runtime *rt;
static aw_addr server;
static int ticks;

static gboolean on_timer(gpointer data);

/* Called by a task. */
static void answered(int n) {
    if (n < 3)
        g_timeout_add(20, on_timer, NULL);
    else
        g_main_loop_quit(loop);
}

static gboolean on_timer(gpointer data) {
    (void)data;
    printf("glib: tick %d\n", ++ticks);
    aw_task_detach(aw_spawn_on(rt, AW_CALL(ask, .to = server, .n = ticks, .then = answered)));
    return G_SOURCE_REMOVE; /* a one-shot timer */
}

static gboolean on_readable(gint fd, GIOCondition condition, gpointer data) {
    (void)fd;
    (void)condition;
    (void)data;
    aw_runtime_run_once(rt);
    return G_SOURCE_CONTINUE;
}

int main(void) {
    int fd = embedded_runtime(&rt);
    if (fd < 0 || serve_squares(rt, &server)) return 1;
    loop = g_main_loop_new(NULL, FALSE);
    guint watch = g_unix_fd_add(fd, G_IO_IN, on_readable, NULL);
    g_timeout_add(20, on_timer, NULL);
    g_main_loop_run(loop);

    printf("glib: the loop has ended\n");
    g_source_remove(watch); /* before its descriptor is closed */
    aw_runtime_free(rt);    /* cancels the remaining task, the server */
    g_main_loop_unref(loop);
    return 0;
}
