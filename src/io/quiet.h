/* SPDX-License-Identifier: MIT
 *
 * Calls that would raise SIGPIPE, and cannot be told not to: the thread does not listen meanwhile, and what came is taken
 * away again. What was pending before stays so. */
#ifndef AW_IO_QUIET_H
#define AW_IO_QUIET_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

typedef struct aw__quiet {
    sigset_t before;
    bool was_pending;
} aw__quiet;

static inline sigset_t aw__sigpipe(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

static inline void aw__quiet_begin(aw__quiet *q) {
    sigset_t pipe = aw__sigpipe(), pending;
    pthread_sigmask(SIG_BLOCK, &pipe, &q->before);
    sigpending(&pending);
    q->was_pending = sigismember(&pending, SIGPIPE);
}

/* `error`: that of the call, or 0. errno is what it was. */
static inline void aw__quiet_end(aw__quiet *q, int error) {
    static const struct timespec now;
    sigset_t pipe = aw__sigpipe();
    int kept = errno;
    if (error == EPIPE && !q->was_pending)
        while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &q->before, NULL);
    errno = kept;
}

#endif
