/* SPDX-License-Identifier: MIT
 *
 * AW_FAIL ends the whole task, even from a child that is polled only when it is woken. The child
 * then waits to be cancelled, which is not a lost wake-up, and may be polled once more before
 * that. */
#include <errno.h>

#include <awake.h>

#include "test.h"

static void no_reports(void *data, aw_log_level level, const char *message) {
    (void)data;
    if (level != AW_LOG_INFO) FAIL("%s", message);
}

static aw_runtime *new_runtime(void) {
    aw_runtime *rt;
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.paused = true;
    options.log = no_reports;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    return rt;
}

static int cleaned;
static aw_notify bell;

enum role { FAILS, SLEEPS, RINGS, JOINS };

AW_ASYNC(int, failing) {
    AW_BEGIN;
    AW_FAIL(-EREMOTEIO);
    AW_RETURN(0);
    AW_FINALLY;
    cleaned++;
    AW_END;
}

/* A child that acts by its role. */
AW_ASYNC(int, child, enum role role; struct failing f; aw_sleep s;
         AW_JOIN(struct failing, aw_notified) j;) {
    AW_BEGIN;
    if (self->role == FAILS) {
        AW_AWAIT(self->f, AW_CALL(failing));
    } else if (self->role == SLEEPS) {
        AW_AWAIT(self->s, aw_sleep_for(AW_SEC(1000)));
    } else if (self->role == RINGS) {
        aw_notify_one(&bell);
    } else {
        AW_AWAIT_JOIN(self->j, AW_CALL(failing), aw_notify_wait(&bell));
    }
    AW_RETURN(0);
    AW_FINALLY;
    cleaned++;
    AW_END;
}

/* ---- Sets ------------------------------------------------------------------------------------ */

AW_ASYNC(int, collect, aw_set *set; aw_set_next_future next; aw_set_clear_future clear;) {
    AW_BEGIN;
    while (self->set->count)
        AW_AWAIT(self->next, aw_set_next(self->set));
    AW_RETURN(0);
    AW_FINALLY;
    AW_AWAIT(self->clear, aw_set_clear(self->set));
    aw_set_free(self->set);
    AW_END;
}

static int run_set(const enum role *roles, int n) {
    aw_runtime *rt = new_runtime();
    aw_set set;
    aw_set_init(&set, sizeof(struct child));
    for (int i = 0; i < n; i++)
        CHECK_EQ(aw_set_push(&set, AW_CALL(child, .role = roles[i])), 0);
    struct collect *task = aw_spawn_on(rt, AW_CALL(collect, .set = &set));
    int status = aw_block_on(rt, aw_task_join(task));
    aw_task_drop(task);
    aw_runtime_free(rt);
    return status;
}

TEST(a_child_of_a_set_that_fails_ends_the_task) {
    CHECK_EQ(run_set((enum role[]){FAILS}, 1), -EREMOTEIO);
    CHECK_EQ(cleaned, 2);
    CHECK_EQ(run_set((enum role[]){SLEEPS, FAILS, SLEEPS}, 3), -EREMOTEIO);
    CHECK_EQ(cleaned, 2 + 4);
}

/* RINGS finishes, so the set is polled again within the same poll of the task. JOINS was woken,
 * and polls the child that has failed. */
TEST(a_child_that_failed_may_be_polled_again_before_the_task_is_cancelled) {
    CHECK_EQ(run_set((enum role[]){JOINS, RINGS, SLEEPS}, 3), -EREMOTEIO);
    CHECK_EQ(cleaned, 4);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

AW_ASYNC(int, join_them, struct child *jobs; size_t n; aw_all all;) {
    AW_BEGIN;
    AW_AWAIT(self->all, aw_join_all(self->jobs, self->n));
    AW_RETURN(0);
    AW_END;
}

static void fail_in_array(size_t n) {
    static struct child jobs[40];
    aw_runtime *rt = new_runtime();
    for (size_t i = 0; i < n; i++)
        jobs[i] = AW_CALL(child, .role = i == n / 2 ? FAILS : SLEEPS);
    struct join_them *task = aw_spawn_on(rt, AW_CALL(join_them, .jobs = jobs, .n = n));
    CHECK_EQ(aw_block_on(rt, aw_task_join(task)), -EREMOTEIO);
    aw_task_drop(task);
    aw_runtime_free(rt);
    CHECK_EQ(cleaned, (int)n + 1);
}

TEST(a_child_of_a_small_array_that_fails_ends_the_task) {
    fail_in_array(4);
}
TEST(a_child_of_a_big_array_that_fails_ends_the_task) {
    fail_in_array(40);
}
