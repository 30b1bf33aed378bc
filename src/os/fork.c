/* SPDX-License-Identifier: MIT */
#include "os/fork.h"

#include <pthread.h>

uint32_t aw__fork_generation;

static int error;

static void in_child(void) {
    aw__fork_generation++;
}

static void begin(void) {
    error = -pthread_atfork(NULL, NULL, in_child);
}

int aw__fork_watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    return error;
}
