/* SPDX-License-Identifier: MIT
 *
 * awake/embed.h: run a runtime inside another event loop (GLib, libuv, your own).
 *
 *     watch(aw_runtime_fd(rt), READABLE, on_readable);
 *     void on_readable(...) { aw_runtime_run_once(rt); }          whenever it is readable
 *
 * Only for AW_CURRENT_THREAD: workers need no loop. Tasks, also those spawned by the same thread,
 * run in aw_runtime_run_once. You may call block_on in between; it does not end the other tasks.
 * While another thread is in block_on, the descriptor may be readable and aw_runtime_run_once is
 * refused.
 *
 * With io_uring, completions interrupt the loop's own wait: epoll_wait may fail with EINTR, as
 * after a signal; call it again. No deadlock is reported, because the outer loop may end it. */
#ifndef AWAKE_EMBED_H
#define AWAKE_EMBED_H

#include <awake/runtime.h>

AW_C_BEGIN

/* A descriptor that is readable when a task can run, a timer is due, or I/O is ready. It belongs to
 * the runtime, is the same in each call, and stays open until the runtime is freed. Watch it
 * level-triggered, and do nothing else with it. Call this outside tasks, on the thread that will
 * call aw_runtime_run_once. Errors:
 *
 *   -ENOTSUP   a runtime with workers; a seam with its own `park` or `now`; or the driver "poll"
 *              once a descriptor has waited (before that it is replaced by epoll)
 *   -EPERM     inside a task
 *   -EBUSY     a thread is in block_on
 *   -EOWNERDEAD, -EMFILE, -ENOMEM */
AW_API int aw_runtime_fd(aw_runtime *rt);

/* Run what is ready, for a limited time, and return without sleeping. 0: the descriptor is readable
 * again when there is more to do. -EPERM inside a task; -EBUSY while a thread is in block_on;
 * -EINVAL before aw_runtime_fd; -ESHUTDOWN; -EOWNERDEAD. */
AW_API int aw_runtime_run_once(aw_runtime *rt);

AW_C_END

#endif
