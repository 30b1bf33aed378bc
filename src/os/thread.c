/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/atomic.h"

int aw__os_thread(pthread_t *id, void *(*main)(void *arg), void *arg) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return -error;
    if (id)
        *id = thread;
    else
        pthread_detach(thread); /* it may have ended, but it is there until then */
    return 0;
}

void aw__os_thread_name(const char *first, const char *last) {
    char name[16];
    int room = (int)sizeof name - 1 - (int)strlen(last);
    snprintf(name, sizeof name, "%.*s%s", room > 0 ? room : 0, first, last);
    pthread_setname_np(pthread_self(), name);
}

uint64_t aw__os_thread_number(void) {
    static uint64_t last; /* atomic */
    static _Thread_local uint64_t number;
    if (!number) number = aw__fetch_add_relaxed(&last, (uint64_t)1) + 1;
    return number;
}
