/* SPDX-License-Identifier: MIT
 *
 * What each backend promises to the layers above: an interrupt ends a sleep, whichever thread
 * polls the driver meanwhile, and the child of a fork frees only what is its own. */
#include "base/allocate.h"

#include "support/io.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "os/fork.h"
#include "os/park.h"

#define ON_BACKENDS(name)                                                                          \
    static void name##_body(const aw__driver_type *type);                                          \
    TEST(name##_by_uring) {                                                                        \
        if (aw__uring_works()) SKIP("no io_uring here");                                           \
        name##_body(&aw__uring_driver);                                                            \
    }                                                                                              \
    TEST(name##_by_epoll) {                                                                        \
        name##_body(&aw__epoll_driver);                                                            \
    }                                                                                              \
    TEST(name##_by_poll) {                                                                         \
        name##_body(&aw__poll_driver);                                                             \
    }                                                                                              \
    static void name##_body(const aw__driver_type *type)

static aw__driver *driver_new(const aw__driver_type *type) {
    aw__driver *d;
    CHECK_EQ(aw__driver_open(&d, type, aw__allocator_for(NULL), NULL), 0);
    return d;
}

static void driver_end(aw__driver *d) {
    aw__driver_close(d);
    aw__driver_free(d);
}

static bool sleeps(aw__driver *d, uint64_t ns) {
    aw__event events[AW__EVENTS];
    uint64_t until = aw__os_now() + ns;
    CHECK_EQ(d->type->collect(d, events, until), 0);
    return aw__os_now() >= until;
}

/* ---- Interrupts -------------------------------------------------------------------------------- */

ON_BACKENDS(an_interrupt_ends_the_next_sleep) {
    aw__driver *d = driver_new(type);
    CHECK(sleeps(d, 1000000));
    for (int i = 0; i < 100; i++) {
        d->type->interrupt(d);
        CHECK(!sleeps(d, AW_SEC(10)));
    }
    while (!sleeps(d, 1000000)) /* leftover interrupts are used up */
        ;
    driver_end(d);
}

static void *poll_once(void *arg) {
    aw__driver_poll(arg);
    return NULL;
}

/* The owner has announced its sleep, but does not sleep yet. */
ON_BACKENDS(an_interrupt_is_not_lost_to_another_thread_that_polls) {
    aw__driver *d = driver_new(type);
    for (int i = 0; i < 20; i++) {
        while (!sleeps(d, 1000000))
            ;
        d->type->interrupt(d);
        on_a_thread(poll_once, d);
        CHECK(!sleeps(d, AW_SEC(10)));
    }
    driver_end(d);
}

static void *poll_until_stopped(void *arg) {
    struct {
        aw__driver *d;
        uint32_t stop;
    } *a = arg;
    while (!LOAD(a->stop))
        aw__driver_poll(a->d);
    return NULL;
}

ON_BACKENDS(no_interrupt_is_lost_while_another_thread_polls_all_the_time) {
    struct {
        aw__driver *d;
        uint32_t stop;
    } a = {driver_new(type), 0};
    pthread_t poller = thread_start(poll_until_stopped, &a);
    for (int i = 0; i < stress_rounds(300); i++) {
        a.d->type->interrupt(a.d);
        CHECK(!sleeps(a.d, AW_SEC(10)));
    }
    STORE(a.stop, 1);
    thread_end(poller);
    driver_end(a.d);
}

/* The kernel cancels what that thread has submitted. */
ON_BACKENDS(an_interrupt_is_not_lost_when_a_thread_that_polled_has_ended) {
    aw__driver *d = driver_new(type);
    on_a_thread(poll_once, d);
    for (int i = 0; i < 20; i++) {
        on_a_thread(poll_once, d);
        d->type->interrupt(d);
        CHECK(!sleeps(d, AW_SEC(10)));
    }
    driver_end(d);
}

/* ---- The child of a fork ----------------------------------------------------------------------- */

/* Memory that a driver shares with the kernel is not mapped in the child: other mappings may be
 * at its address. */
static void use_memory_and_free(aw__driver *d) {
    enum { BLOCKS = 64 };
    static char *blocks[BLOCKS];
    size_t size = 1 << 14;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(blocks[i] != MAP_FAILED);
        memset(blocks[i], i, size);
    }
    aw__driver_free(d);
    for (int i = 0; i < BLOCKS; i++)
        for (size_t at = 0; at < size; at += 512)
            CHECK_EQ(blocks[i][at], i);
}

ON_BACKENDS(a_child_frees_only_what_is_its_own) {
    CHECK_EQ(aw__fork_watch(), 0); /* as a runtime does */
    aw__driver *d = driver_new(type);
    CHECK(sleeps(d, 1000000));
    pid_t child = fork();
    if (child == 0) {
        use_memory_and_free(d);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    d->type->interrupt(d);
    CHECK(!sleeps(d, AW_SEC(10)));
    driver_end(d);
}
