/* SPDX-License-Identifier: MIT
 *
 * awake/embed.h: a runtime inside somebody else's loop (GLib's, libuv's, one's own): a descriptor that says when, and a
 * call that does what there is to do.
 *
 *     watch(aw_runtime_fd(rt), READABLE, on_readable);          whenever it is readable:
 *     void on_readable(…) { aw_runtime_turn(rt); }
 *
 * Only for AW_CURRENT_THREAD: workers run by themselves. What is spawned, from the same thread too, runs in the
 * turns; block_on in between is allowed and does not end the other tasks; while another thread is in it the
 * descriptor may be readable, and a turn is refused. With io_uring the system interrupts the loop's own wait when
 * something is done: where that is epoll_wait it ends with EINTR, as by a signal, and is called again. Nothing is
 * called a deadlock: the loop outside may end it. */
#ifndef AWAKE_EMBED_H
#define AWAKE_EMBED_H

#include <awake/runtime.h>

AW_C_BEGIN

/* A descriptor that is readable when a task can run, a timer is due or input has come. It is the runtime's, the same
 * each time, and stays until that is freed; watch it level-triggered, and do nothing else with it. Call it on the
 * thread that will call aw_runtime_turn, outside of tasks. The driver "poll" has nothing to watch: in its place epoll
 * is used, or, when descriptors have waited already, -ENOTSUP. As with workers, and with a seam that has a way of its
 * own to sleep or to tell the time. Or -EPERM inside a task; -EBUSY while a thread is in block_on; -EOWNERDEAD,
 * -EMFILE, -ENOMEM. */
AW_API int aw_runtime_fd(aw_runtime *rt);

/* Run what is ready, for a while, and come back without having slept. 0, and the descriptor is readable again when
 * there is more to do; or -EPERM inside a task, -EBUSY while a thread is in block_on, -EINVAL before aw_runtime_fd,
 * -ESHUTDOWN, -EOWNERDEAD. */
AW_API int aw_runtime_turn(aw_runtime *rt);

AW_C_END

#endif
