/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"

/* All signals but those that an instruction of the thread itself can raise. */
static sigset_t asynchronous_signals(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&set, faults[i]);
    return set;
}

int aw__os_thread(pthread_t *id, void *(*main)(void *arg), void *arg) {
    pthread_t thread;
    sigset_t blocked = asynchronous_signals(), before;
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_create(&thread, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return -error;
    if (id)
        *id = thread;
    else
        pthread_detach(thread); /* until then the id is valid, even if the thread has ended */
    return 0;
}

void aw__os_thread_name(const char *first, const char *last) {
    char name[16];
    int space = (int)sizeof name - 1 - (int)strlen(last);
    snprintf(name, sizeof name, "%.*s%s", space > 0 ? space : 0, first, last);
    pthread_setname_np(pthread_self(), name);
}

uint64_t aw__os_thread_number(void) {
    static uint64_t last; /* atomic */
    static _Thread_local uint64_t number;
    if (!number) number = aw__fetch_add_relaxed(&last, (uint64_t)1) + 1;
    return number;
}
