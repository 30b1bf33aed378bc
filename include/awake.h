/* SPDX-License-Identifier: MIT
 *
 * awake.h: Awake, an async runtime for C. Includes every header. Each header is one concept and
 * documents itself: this is the table of contents, in reading order.
 *
 * Arguments have one order: the object, or the pointer to the object to be made; the runtime, if it
 * is given and is not the object; inputs; outputs; options. A count follows its pointer, an
 * argument its callback. A type comes first; a future that is written as an expression comes last.
 *
 * Errors are negative errno values. Public names begin with aw_ or AW_. Names with two underscores
 * (aw__, AW__) are private, even in headers, and so is everything in awake/detail/. */
#ifndef AWAKE_H
#define AWAKE_H

/* ---- Basics -------------------------------------------------------------------------------- */
#include <awake/config.h>  /* units of time, AW_CHECKS */
#include <awake/version.h> /* version numbers */

/* ---- Futures ------------------------------------------------------------------------------- */
#include <awake/waker.h>  /* wakers: how a future asks to be polled again */
#include <awake/future.h> /* futures: poll, cancel, discard, and the contract */
#include <awake/async.h>  /* async functions: stackless, with AW_AWAIT */
#include <awake/fiber.h>  /* fibers: plain C with its own stack, with aw_await */
#include <awake/leaf.h>   /* ready, never, poll_fn, yield */
#include <awake/box.h>    /* a future in its own allocation */

/* ---- Runtime and tasks --------------------------------------------------------------------- */
#include <awake/runtime.h>    /* run, block_on; options and counters */
#include <awake/task.h>       /* spawn, join, abort */
#include <awake/scope.h>      /* tasks that may borrow from their parent */
#include <awake/join_set.h>   /* tasks, joined in the order in which they end */
#include <awake/task_local.h> /* values that belong to a task */
#include <awake/blocking.h>   /* blocking calls, on separate threads */
#include <awake/wait.h>       /* await on a plain thread, without a runtime */
#include <awake/embed.h>      /* a runtime inside another event loop */

/* ---- Time ---------------------------------------------------------------------------------- */
#include <awake/time.h>    /* sleep, interval, clock */
#include <awake/timeout.h> /* cancel a future that takes too long */

/* ---- Several futures at once --------------------------------------------------------------- */
#include <awake/group.h>    /* join, try_join, select over futures of different types */
#include <awake/join_all.h> /* join_all, try_join_all, select_all over an array */
#include <awake/set.h>      /* a growing set that yields futures as they finish */

/* ---- Synchronisation ----------------------------------------------------------------------- */
#include <awake/notify.h>     /* wake one waiter or all */
#include <awake/mutex.h>      /* mutual exclusion */
#include <awake/semaphore.h>  /* counted permits */
#include <awake/rwlock.h>     /* many readers or one writer */
#include <awake/condvar.h>    /* wait for a change of what a mutex guards */
#include <awake/once.h>       /* initialise on first use */
#include <awake/barrier.h>    /* wait until all participants have arrived */
#include <awake/wait_group.h> /* wait until all jobs are done */
#include <awake/token.h>      /* tell many tasks to stop */

/* ---- Channels ------------------------------------------------------------------------------ */
#include <awake/element.h>   /* element types of channels */
#include <awake/oneshot.h>   /* one value, once */
#include <awake/channel.h>   /* a queue of values */
#include <awake/watch.h>     /* the latest value */
#include <awake/broadcast.h> /* every value to every receiver */

/* ---- Streams ------------------------------------------------------------------------------- */
#include <awake/stream.h>         /* streams of values, and adapters */
#include <awake/generator.h>      /* functions that yield values */
#include <awake/merge.h>          /* several streams as one; items in chunks */
#include <awake/map_concurrent.h> /* a future per item, several at a time */

/* ---- I/O and networking -------------------------------------------------------------------- */
#include <awake/io.h>                /* connections: read and write descriptors */
#include <awake/addr.h>              /* socket addresses */
#include <awake/resolve.h>           /* host names to addresses */
#include <awake/net.h>               /* listen, accept, connect */
#include <awake/udp.h>               /* datagrams */
#include <awake/unix.h>              /* Unix sockets, passing descriptors, pipes */
#include <awake/socket_activation.h> /* sockets inherited at program start */
#include <awake/duplex.h>            /* a pair of connections in memory */

/* ---- Buffered I/O -------------------------------------------------------------------------- */
#include <awake/bytes.h>  /* whole transfers: write_all, read_exact */
#include <awake/reader.h> /* buffered reads: lines, delimiters, to the end */
#include <awake/writer.h> /* buffered writes with watermarks */
#include <awake/frame.h>  /* length-prefixed messages */
#include <awake/lines.h>  /* lines and frames as streams */
#include <awake/copy.h>   /* copy between connections, send files */

/* ---- Customisation ------------------------------------------------------------------------- */
#include <awake/alloc.h> /* your own allocator */
#include <awake/log.h>   /* your own log callback */
#include <awake/hooks.h> /* callbacks for threads and tasks */
#include <awake/seam.h>  /* replace time, entropy, run order and waiting */

#endif
