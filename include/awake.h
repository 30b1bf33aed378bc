/* SPDX-License-Identifier: MIT
 *
 * awake.h: Awake, an async runtime for C. This includes everything; each header below is one concept
 * and explains itself. Read them in this order.
 *
 * Errors are negative errno values. Public names begin with aw_ or AW_; names with two underscores
 * (aw__, AW__) are private, also where a header has to show them. */
#ifndef AWAKE_H
#define AWAKE_H

#include <awake/config.h>    /* durations, checks */
#include <awake/version.h>   /* which version */
#include <awake/waker.h>     /* how a future says "poll me again" */
#include <awake/future.h>    /* what a future is, and the contract */
#include <awake/async.h>     /* async functions */
#include <awake/leaf.h>      /* ready, never, poll_fn, yield */
#include <awake/group.h>     /* join, try_join, select over unlike futures */
#include <awake/runtime.h>   /* block_on and run */
#include <awake/hooks.h>     /* be told of threads and tasks */
#include <awake/embed.h>     /* a runtime inside somebody else's loop */
#include <awake/task.h>      /* spawn, join handles, abort */
#include <awake/time.h>      /* sleep, interval, the clock */
#include <awake/timeout.h>   /* giving up after a while */
#include <awake/fiber.h>     /* plain C that can wait */
#include <awake/scope.h>     /* tasks that borrow, and are waited for */
#include <awake/join_set.h>  /* tasks, joined in the order of their ends */
#include <awake/box.h>       /* a future in memory of its own */
#include <awake/all.h>       /* join_all, try_join_all, select_all over arrays */
#include <awake/set.h>       /* a growing set, yielding as they finish */
#include <awake/blocking.h>  /* calls that block, on threads of their own */
#include <awake/wait.h>      /* waiting on a plain thread */
#include <awake/notify.h>    /* wake one, wake all */
#include <awake/mutex.h>     /* one at a time */
#include <awake/semaphore.h> /* so many at a time */
#include <awake/rwlock.h>    /* many readers or one writer */
#include <awake/condvar.h>   /* wait for a change of what a mutex guards */
#include <awake/once.h>      /* made by whoever comes first */
#include <awake/barrier.h>   /* nobody goes on before all have come */
#include <awake/waitgroup.h> /* wait until all are done */
#include <awake/token.h>     /* ask many to stop */
#include <awake/oneshot.h>   /* one value, once */
#include <awake/element.h>   /* what channels are told of their elements */
#include <awake/channel.h>   /* a queue of values */
#include <awake/watch.h>     /* the latest value */
#include <awake/broadcast.h> /* each value to everybody */
#include <awake/stream.h>    /* many values, one after the other */
#include <awake/generator.h> /* functions that give values */
#include <awake/merge.h>     /* several streams as one, items in groups */
#include <awake/buffered.h>  /* a future for each item, several at once */
#include <awake/io.h>        /* reading and writing descriptors */
#include <awake/addr.h>      /* addresses of sockets */
#include <awake/resolve.h>   /* the addresses of a name */
#include <awake/net.h>       /* listening, accepting, connecting */
#include <awake/udp.h>       /* datagrams */
#include <awake/unix.h>      /* Unix sockets, passing descriptors, pipes */
#include <awake/inherit.h>   /* sockets that the program was started with */
#include <awake/bytes.h>     /* all of them: write_all, read_exact */
#include <awake/reader.h>    /* a buffer for reading: lines, parts, to the end */
#include <awake/writer.h>    /* a buffer for writing, with watermarks */
#include <awake/frame.h>     /* messages with their length in front */
#include <awake/lines.h>     /* lines and frames as a stream */
#include <awake/duplex.h>    /* two connections in memory */
#include <awake/copy.h>      /* from one connection to another, from a file */
#include <awake/local.h>     /* values that belong to a task */
#include <awake/alloc.h>     /* bring your own allocator */
#include <awake/log.h>       /* what the library has to say */
#include <awake/seam.h>      /* replace time, entropy, order and waiting */

#endif
