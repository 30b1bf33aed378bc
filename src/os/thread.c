/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/thread.h"

#include <signal.h>
#include <stdio.h>

int aw__os_thread(pthread_t *id, void *(*main)(void *arg), void *arg, const char *name) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return -error;
    char cut[16];
    snprintf(cut, sizeof cut, "%s", name);
    pthread_setname_np(thread, cut);
    if (id)
        *id = thread;
    else
        pthread_detach(thread); /* it may have ended, but it is there until then */
    return 0;
}
