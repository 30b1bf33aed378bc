/* SPDX-License-Identifier: MIT
 *
 * task/inbox.h under every schedule, on the real os/park.c: no pushed task is lost or taken
 * twice, no wake-up is lost, and the runtime can be freed when the last unpark is done. */
#include "support/model.h"
#include "support/model_park.h"

#include "task/owner_park.h"
#define aw__rt_unpark(rt) aw__os_unpark(&(rt)->thread_io.word)
#include "task/inbox.h"

enum { TASKS = 3 };

/* A task, and what its pusher passes on. */
struct request {
    aw__task task;
    int number;
};

static aw_runtime *rt;
static struct request *requests[TASKS];
static bool refused[TASKS]; /* by a closed inbox */
static int served[TASKS], order[TASKS], total, wanted;
static int owner_data; /* plain, like most of a runtime */

static void setup(void) {
    memset(refused, 0, sizeof refused);
    memset(served, 0, sizeof served);
    total = owner_data = 0;
    wanted = TASKS;
    rt = model_alloc(sizeof *rt);
    for (int i = 0; i < TASKS; i++)
        requests[i] = model_alloc(sizeof *requests[i]);
}

/* ---- The threads ----------------------------------------------------------------------------- */

static void push(int i) {
    model_write(&requests[i]->number, i);
    if (aw__inbox_push(rt, &requests[i]->task)) return;
    /* Closed: the state of the owner is now shared, under a lock. The owner has never taken that
     * lock, so the close itself must make it visible. */
    model_check(model_read(&owner_data) == total);
    refused[i] = true;
}

static void push_first(void) {
    push(0);
}
static void push_two(void) {
    push(1);
    push(2);
}
static void push_second(void) {
    push(1);
}

/* A task is freed when it has been served. */
static void drain(void) {
    for (aw__task *t = aw__inbox_take(rt), *next; t; t = next) {
        next = t->inbox_next;
        int i = model_read(&((struct request *)t)->number);
        served[i]++;
        order[total++] = i;
        model_write(&owner_data, total);
        model_free(t);
    }
}

/* Like the loop of the runtime. With a deadline it may wake up for another reason. */
static void serve_until(uint64_t deadline) {
    while (total < wanted) {
        if (aw__load_relaxed(&rt->inbox)) drain();
        if (total >= wanted) break;
        if (!aw__inbox_park(rt)) continue;
        aw__os_park(&rt->thread_io.word, deadline);
        aw__inbox_unpark(rt);
        drain();
    }
}

/* Like aw_runtime_free. */
static void end(void) {
    while (!aw__inbox_close(rt))
        drain();
    while (aw__load_acquire(&rt->unparks_done) != rt->unparks_due)
        aw__os_yield();
}

static void own(void) {
    serve_until(UINT64_MAX);
    end();
    model_free(rt);
}
static void own_with_deadline(void) {
    serve_until(0);
    end();
    model_free(rt);
}
static void own_and_look(void) {
    for (const aw__task *t = aw__inbox_first(rt); t; t = t->inbox_next)
        (void)model_read(&((const struct request *)t)->number);
    own();
}
/* Ends after the first task; the others may be too late. */
static void own_for_one(void) {
    serve_until(UINT64_MAX);
    end();
}

/* ---- Promises -------------------------------------------------------------------------------- */

static void each_served_once(void) {
    int position[TASKS] = {0};
    model_check(total == wanted);
    for (int i = 0; i < wanted; i++) {
        model_check(served[i] == 1);
        position[order[i]] = i;
    }
    /* The pushes of one thread are in order. */
    if (wanted == 3) model_check(position[1] < position[2]);
}
static void each_served_or_refused(void) {
    for (int i = 0; i < TASKS; i++)
        model_check(served[i] + refused[i] == 1);
    model_check(served[0] + served[1] + served[2] >= wanted && rt->inbox == AW__INBOX_CLOSED);
}
static void setup_for_one(void) {
    setup();
    wanted = 1;
}
static void setup_for_two(void) {
    setup();
    wanted = 2;
}

MODEL(what_two_threads_push_is_served_once_and_the_owner_sleeps_not_too_long, .setup = setup,
      .threads = {own, push_first, push_two}, .check = each_served_once)
MODEL(the_owner_may_wake_for_another_reason, .setup = setup_for_two,
      .threads = {own_with_deadline, push_first, push_second}, .check = each_served_once)
MODEL(the_owner_may_look_at_what_was_pushed, .setup = setup_for_two,
      .threads = {own_and_look, push_first, push_second}, .check = each_served_once)
MODEL(a_push_onto_a_closed_inbox_is_refused, .setup = setup_for_one,
      .threads = {own_for_one, push_first, push_two}, .check = each_served_or_refused)

/* ---- Mistakes -------------------------------------------------------------------------------- */

/* Unparks before the push: the owner sleeps again when the task is pushed. */
static void wake_then_push(void) {
    aw__task *t = &requests[0]->task, *head = aw__load_acquire(&rt->inbox);
    if (head == AW__INBOX_PARKED) aw__rt_unpark(rt);
    do
        t->inbox_next = head == AW__INBOX_PARKED ? NULL : head;
    while (!aw__cas(&rt->inbox, &head, t));
}
static void serve(void) {
    serve_until(UINT64_MAX);
}
static void park_without_check(void) {
    if (aw__load_acquire(&rt->inbox)) return;
    aw__store_release(&rt->inbox, AW__INBOX_PARKED);
    aw__os_park(&rt->thread_io.word, UINT64_MAX);
}
static void free_without_waiting(void) {
    serve_until(0);
    while (!aw__inbox_close(rt))
        drain();
    model_free(rt);
}

MODEL_BROKEN(a_wake_up_before_the_push_is_lost, "deadlock", .setup = setup_for_one,
             .threads = {serve, wake_then_push})
MODEL_BROKEN(a_push_between_looking_and_sleeping_is_lost, "deadlock", .setup = setup_for_one,
             .threads = {park_without_check, push_first})
MODEL_BROKEN(a_runtime_that_is_freed_before_the_unpark_is_noticed, "free", .setup = setup_for_one,
             .threads = {free_without_waiting, push_first})

/* ---- Orders ---------------------------------------------------------------------------------- */

/* What a task passes on goes from the cas of its push (release) to the exchange that takes it
 * (acquire). What the owner leaves behind goes from its close (release) to the push that finds
 * it closed (acquire). The marks in between, NULL and PARKED, pass on nothing. */
static const struct model_harmless harmless[] = {
    {"aw__inbox_push", "aw__cas(", "acquire",
     "what it is pushed onto is not read; the park word orders itself"},
    {"aw__inbox_push", "aw__fetch_add(", "acquire", "the pusher does nothing after that"},
    {"aw__inbox_park", "aw__cas(", "acquire", "NULL passes on nothing: the owner itself wrote it"},
    {"aw__inbox_park", "aw__cas(", "release", "PARKED only requests an unpark"},
    {"aw__inbox_park", "aw__cas(", "failure", "the task is read after it was taken"},
    {"aw__inbox_unpark", "aw__cas(", "acquire", "the owner itself wrote PARKED"},
    {"aw__inbox_unpark", "aw__cas(", "release", "NULL passes on nothing"},
    {"aw__inbox_unpark", "aw__cas(", "failure", "the task is read after it was taken"},
    {"aw__inbox_close", "aw__cas(", "acquire", "the owner itself wrote NULL"},
    {"aw__inbox_close", "aw__cas(", "failure", "the task is read after it was taken"},
    {"aw__inbox_take", "aw__exchange(", "release",
     "NULL passes on nothing; whether a task may be pushed again is in its own word"},
    {0}};

MODEL_ORDERS(the_orders_of_the_inbox, "task/inbox.h", harmless,
             &model_what_two_threads_push_is_served_once_and_the_owner_sleeps_not_too_long,
             &model_the_owner_may_wake_for_another_reason,
             &model_the_owner_may_look_at_what_was_pushed,
             &model_a_push_onto_a_closed_inbox_is_refused)
