/* SPDX-License-Identifier: MIT
 *
 * The threads of the workers: their properties, and failures to make them. If any of them cannot be
 * made, making the runtime fails with a clean error, and nothing remains. */
/* link: -Wl,--wrap=pthread_create */
#define _GNU_SOURCE
#include <signal.h>

#include "support/workers.h"

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *arg);

static int made, refused_from = INT32_MAX, error = EAGAIN;
static uint32_t alive;

struct start {
    void *(*body)(void *);
    void *arg;
};

static void *counted_body(void *arg) {
    struct start s = *(struct start *)arg;
    free(arg);
    void *result = s.body(s.arg);
    __atomic_fetch_sub(&alive, 1, __ATOMIC_RELEASE);
    return result;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *arg) {
    if (made++ >= refused_from) return error;
    struct start *s = malloc(sizeof *s);
    *s = (struct start){body, arg};
    ADD(alive, 1);
    int r = __real_pthread_create(thread, attributes, counted_body, s);
    CHECK_EQ(r, 0);
    return r;
}

/* Fails to make the first thread, then the second, and so on, until all are made. */
static void fail_each(uint32_t workers, int code) {
    error = code;
    for (int at = 0, r = 1; r; at++) {
        memory m;
        aw_runtime *rt = NULL;
        aw_runtime_options o = workers_options(workers, &m, NULL);
        memory_init(&m);
        made = 0;
        refused_from = at;
        r = aw_runtime_new(&rt, &o);
        refused_from = INT32_MAX;
        if (r) {
            CHECK_EQ(r, -code);
            CHECK_EQ(rt, NULL);
        } else {
            CHECK_GE(at, (int)workers);
            CHECK_EQ(RUN(rt, rounds(3)), 0);
            aw_runtime_free(rt);
        }
        CHECK_EQ(LOAD(alive), 0); /* threads that had started were joined */
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

ON_WORKERS(a_thread_that_cannot_be_made_is_a_clean_error) {
    for (int i = 0; i < test_scale(50); i++)
        fail_each(workers, i % 2 ? EAGAIN : EPERM);
}

/* The memory belongs to the caller again at once. */
TEST(storage_can_be_used_again_after_a_failure) {
    static aw_runtime_storage storage;
    aw_runtime *rt = NULL;
    aw_runtime_options o = workers_options(4, NULL, NULL);
    refused_from = 3;
    CHECK_EQ(aw_runtime_new_in(&rt, &storage, sizeof storage, &o), -EAGAIN);
    memset(&storage, 0xa5, sizeof storage);
    refused_from = INT32_MAX;
    CHECK_EQ(aw_runtime_new_in(&rt, &storage, sizeof storage, &o), 0);
    CHECK_EQ(RUN(rt, rounds(3)), 0);
    aw_runtime_free(rt);
    CHECK_EQ(LOAD(alive), 0);
}

/* Whether making the runtime fails or not. */
TEST(the_signals_of_the_caller_stay_as_they_were) {
    sigset_t before, after;
    for (int at = 0; at < 3; at++) {
        aw_runtime *rt = NULL;
        aw_runtime_options o = workers_options(2, NULL, NULL);
        made = 0;
        refused_from = at;
        pthread_sigmask(SIG_SETMASK, NULL, &before);
        if (aw_runtime_new(&rt, &o) == 0) aw_runtime_free(rt);
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        for (int s = 1; s < 32; s++)
            CHECK_EQ(sigismember(&before, s), sigismember(&after, s));
    }
}

/* ---- Properties ------------------------------------------------------------------------------ */

AW_ASYNC(int, looks_around, uint32_t *running; uint32_t count; uint32_t * names;) {
    AW_BEGIN;
    {
        sigset_t blocked;
        char name[16] = "";
        unsigned index = 99;
        pthread_sigmask(SIG_SETMASK, NULL, &blocked);
        CHECK_EQ(sigismember(&blocked, SIGINT), 1); /* signals go to the program's own threads */
        CHECK_EQ(sigismember(&blocked, SIGTERM), 1);
        CHECK_EQ(sigismember(&blocked, SIGCHLD), 1);
        pthread_getname_np(pthread_self(), name, sizeof name);
        CHECK_EQ(sscanf(name, "awake-%u", &index), 1);
        CHECK_LT(index, self->count);
        ADD(self->names[index], 1);
    }
    ADD(*self->running, 1);
    WAIT_UNTIL(LOAD(*self->running) == self->count); /* each task has a worker of its own */
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(workers_have_names_and_no_signals) {
    uint32_t running = 0, names[8] = {0};
    struct looks_around *h[8];
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (uint32_t i = 0; i < workers; i++)
        h[i] = aw_spawn_on(
            rt, AW_CALL(looks_around, .running = &running, .count = workers, .names = names));
    for (uint32_t i = 0; i < workers; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
        CHECK_EQ(LOAD(names[i]), 1);
        aw_task_drop(h[i]);
    }
    workers_end(rt, NULL);
}
