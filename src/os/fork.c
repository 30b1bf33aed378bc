/* SPDX-License-Identifier: MIT */
#include "os/fork.h"

#include <pthread.h>

uint32_t aw__fork_generation;

static int fork_error;

static void fork_in_child(void) {
    aw__fork_generation++;
}

static void fork_register(void) {
    fork_error = -pthread_atfork(NULL, NULL, fork_in_child);
}

int aw__fork_watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fork_register);
    return fork_error;
}
