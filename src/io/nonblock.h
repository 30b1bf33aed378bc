/* SPDX-License-Identifier: MIT
 *
 * O_NONBLOCK of pipes, terminals and the like that the library took over (aw_conn_of_fd). The flag
 * belongs to the open file, which other processes may share, and other descriptors of this process:
 * a terminal is often 0, 1 and 2.
 *
 *   1. All descriptors that were taken over are in one table of the process. Where the flag had to
 *      be set, one descriptor of that open file must clear it.
 *   2. When that descriptor ends, it passes the duty on to another one of the same open file, or
 *      clears the flag if it is the last. So no connection of this process ever begins to block,
 *      and a flag that the program has set itself is never cleared.
 *   3. Whether two descriptors share an open file is what kcmp(2) says. Where it is forbidden, the
 *      same inode and access mode count as the same open file, and the duty is dropped: the flag
 *      may stay set, but is never cleared too early.
 *   4. A forked child clears nothing: the parent goes on with the file.
 *
 * Sockets keep the flag. They are passed to other processes that do not block either (aw_send_fds),
 * and that would begin to block when the first process closes its descriptor. */
#ifndef AW_IO_NONBLOCK_H
#define AW_IO_NONBLOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct aw__nonblock {
    struct aw__nonblock *next, *prev;
    uint64_t device, inode;
    uint32_t generation; /* fork generation */
    int mode, fd;
    bool must_clear; /* under the lock */
} aw__nonblock;

/* Make a descriptor non-blocking and put it into the table. Any thread. 0, or a negative errno, and
 * nothing has changed. -EPERM: a file that cannot be waited for, and that blocks all the same (a
 * regular file, a directory, a disk). */
int aw__nonblock_begin(aw__nonblock *n, int fd);
/* Before the descriptor is closed. */
void aw__nonblock_end(aw__nonblock *n);

#endif
