/* SPDX-License-Identifier: MIT
 *
 * SIGPIPE guard, for calls that raise SIGPIPE and have no flag against it. Block the signal around
 * the call, and consume the one it raised. A SIGPIPE that was pending before stays pending. */
#ifndef AW_OS_SIGPIPE_H
#define AW_OS_SIGPIPE_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

typedef struct aw__sigpipe_guard {
    sigset_t before;
    bool was_pending;
} aw__sigpipe_guard;

static inline sigset_t aw__sigpipe_set(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

static inline void aw__sigpipe_block(aw__sigpipe_guard *g) {
    sigset_t pipe = aw__sigpipe_set(), pending;
    pthread_sigmask(SIG_BLOCK, &pipe, &g->before);
    sigpending(&pending);
    g->was_pending = sigismember(&pending, SIGPIPE);
}

/* `error`: errno of the call, or 0. Preserves errno. */
static inline void aw__sigpipe_restore(aw__sigpipe_guard *g, int error) {
    static const struct timespec now;
    sigset_t pipe = aw__sigpipe_set();
    int saved = errno;
    if (error == EPIPE && !g->was_pending)
        while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &g->before, NULL);
    errno = saved;
}

#endif
