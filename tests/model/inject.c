/* SPDX-License-Identifier: MIT
 *
 * sched/multi/inject.h under every schedule: each pushed task is popped once, in the order of its
 * pusher, or was refused because the queue is closed. */
#include "support/model.h"

#include <sched.h>
#define sched_yield() model_yield()

#define aw__lock_slow aw__lock_slow_modelled /* next to the library's */
#include "os/lock.c"
#include "sched/multi/inject.h"

enum { TASKS = 6 };

static aw__inject queue;
static aw__task tasks[TASKS];
static int data[TASKS], popped[TASKS], at[TASKS], by[TASKS], counts[1 + MODEL_THREADS];
static bool pushed[TASKS], refused[TASKS];

static void setup(void) {
    queue = (aw__inject){0};
    memset(tasks, 0, sizeof tasks);
    memset(data, 0, sizeof data);
    memset(popped, 0, sizeof popped);
    memset(pushed, 0, sizeof pushed);
    memset(refused, 0, sizeof refused);
    memset(counts, 0, sizeof counts);
}

/* ---- The threads ----------------------------------------------------------------------------- */

/* Pushes the tasks from first to last, as a list. */
static bool push(int first, int last) {
    for (int i = first; i <= last; i++) {
        model_write(&data[i], i + 1);
        tasks[i].next = i < last ? &tasks[i + 1] : &tasks[0]; /* the last link may be anything */
    }
    bool open = aw__inject_push(&queue, &tasks[first], &tasks[last]);
    for (int i = first; i <= last; i++)
        open ? (pushed[i] = true) : (refused[i] = true);
    return open;
}

static void take(const aw__task *t) {
    long i = t - tasks;
    model_check(i >= 0 && i < TASKS);
    model_check(model_read(&data[i]) == i + 1);
    popped[i]++;
    by[i] = model_self();
    at[i] = counts[1 + model_self()]++;
}
/* Takes one task, and up to `more` others. */
static bool pop(uint32_t more) {
    aw__task *rest, *t = aw__inject_pop(&queue, more, &rest);
    if (!t) {
        model_check(!rest);
        return false;
    }
    model_check(t->next == rest || (!more && !t->next));
    take(t);
    uint32_t n = 0;
    for (aw__task *next; rest; rest = next, n++) {
        next = rest->next;
        take(rest);
    }
    model_check(n <= more);
    return true;
}

static void push_one_then_two(void) {
    push(0, 0);
    push(1, 2);
}
static void push_two_then_one(void) {
    push(3, 4);
    push(5, 5);
}
static void push_one(void) {
    push(3, 3);
}
static void push_two(void) {
    push(3, 4);
}
static void pop_twice(void) {
    pop(1);
    pop(0);
}
static void pop_three_times(void) {
    for (int i = 0; i < 3; i++)
        pop(1);
}
static void close_and_push(void) {
    aw__inject_close(&queue);
    model_check(!push(5, 5));
}

/* ---- Promises -------------------------------------------------------------------------------- */

static void each_is_popped_or_refused(void) {
    while (pop(1)) {
    }
    model_check(aw__inject_is_empty(&queue) && !queue.lock);
    for (int i = 0; i < TASKS; i++)
        model_check(popped[i] == pushed[i] && !(pushed[i] && refused[i]));
    /* The tasks of one pusher are in order, if the same thread popped them. */
    for (int i = 0; i < TASKS; i++)
        for (int k = i + 1; k < TASKS; k++)
            if (i / 3 == k / 3 && pushed[i] && pushed[k] && by[i] == by[k])
                model_check(at[i] < at[k]);
}

MODEL(what_two_threads_push_is_popped_once_in_the_order_of_each, .setup = setup,
      .threads = {push_one_then_two, push_two_then_one, pop_three_times},
      .check = each_is_popped_or_refused, .stale = 1)
MODEL(two_threads_pop_each_task_once, .setup = setup,
      .threads = {pop_twice, pop_twice, push_one_then_two, push_one},
      .check = each_is_popped_or_refused, .stale = 1)
MODEL(what_comes_after_the_end_is_refused_and_what_came_before_can_be_popped, .setup = setup,
      .threads = {close_and_push, push_one_then_two, pop_twice}, .check = each_is_popped_or_refused)
MODEL(the_end_may_come_between_two_pushers, .setup = setup,
      .threads = {close_and_push, push_one_then_two, push_two}, .check = each_is_popped_or_refused)

/* ---- Checking for tasks ---------------------------------------------------------------------- */

static uint32_t told;

static void setup_told(void) {
    setup();
    told = 0;
}
static void push_and_tell(void) {
    push(0, 2);
    aw__store_release(&told, 1u);
}
/* Two of the tasks stay. */
static void pop_one_of_three(void) {
    push_and_tell();
    pop(0);
    pop(0);
}
static void check_not_empty(void) {
    if (aw__load_acquire(&told)) model_check(!aw__inject_is_empty(&queue));
}
static void pop_one(void) {
    pop(0);
}
static void setup_ready(void) {
    setup_told();
    push(0, 2);
    pop(0);
    told = 1;
}
static void close_it(void) {
    aw__inject_close(&queue);
}

MODEL(a_queue_with_a_task_does_not_look_empty, .setup = setup_told,
      .threads = {push_and_tell, check_not_empty, check_not_empty})
MODEL(what_is_ready_stays_in_sight, .setup = setup_ready,
      .threads = {pop_one, check_not_empty, close_it})
/* So a worker that takes tasks and leaves some must notify afterwards: see idle.c. */
MODEL_BROKEN(tasks_are_out_of_sight_while_they_are_reversed, "is_empty", .setup = setup_told,
             .threads = {pop_one_of_three, check_not_empty})

/* ---- Mistakes -------------------------------------------------------------------------------- */

/* Takes the stack before the lock: a second thread may serve newer tasks first. */
static void pop_without_lock(void) {
    aw__task *t = aw__mpsc_take(&queue.incoming, next);
    if (!t) return;
    aw__lock(&queue.lock);
    for (aw__task *next; t; t = next) {
        next = t->next;
        t->next = aw__load_relaxed(&queue.ready);
        aw__store_relaxed(&queue.ready, t);
    }
    aw__unlock(&queue.lock);
    pop(1);
}
static void push_without_check(void) {
    aw__task *head = aw__load_acquire(&queue.incoming), *t = &tasks[3];
    model_write(&data[3], 4);
    pushed[3] = true;
    do
        t->next = head == AW__INJECT_CLOSED ? NULL : head;
    while (!aw__cas_seq(&queue.incoming, &head, t));
}

MODEL_BROKEN(without_the_lock_the_order_is_lost, "at[i] < at[k]", .setup = setup,
             .threads = {pop_without_lock, push_one_then_two}, .check = each_is_popped_or_refused)
MODEL_BROKEN(a_push_that_ignores_the_close_reopens_the_queue, "!push(5, 5)", .setup = setup,
             .threads = {close_and_push, push_without_check}, .check = each_is_popped_or_refused)

/* ---- Orders ---------------------------------------------------------------------------------- */

/* A task is passed on from the push (release) to the exchange that takes the stack (acquire),
 * and from there on under the lock. */
static const struct model_harmless harmless[] = {
    {"aw__inject_push", "aw__load_acquire(", "acquire", "what it is pushed onto is not read"},
    {"aw__inject_push", "aw__cas_seq(", "acquire", "likewise"},
    {"aw__inject_push", "aw__cas_seq(", "failure", "likewise"},
    {"aw__inject_push", "aw__cas_seq(", "seq_cst",
     "for the check for sleepers that follows: see idle.c"},
    {"aw__inject_pop", "aw__load_acquire(", "acquire", "the exchange that follows takes it"},
    {"aw__inject_pop", "aw__exchange(", "release", "NULL passes on nothing"},
    {"aw__inject_pop", "aw__store_seq(", "release", "tasks are taken under the lock"},
    {"aw__inject_pop", "aw__store_seq(", "seq_cst",
     "for the last check before a worker sleeps: see idle.c"},
    {"aw__inject_close", "aw__exchange(", "release", "CLOSED passes on nothing"},
    {"aw__inject_close", "aw__store_seq(", "release", "tasks are taken under the lock"},
    {"aw__inject_close", "aw__store_seq(", "seq_cst", "no worker sleeps for it at the end"},
    {"aw__inject_is_empty", "aw__load_seq(", "acquire", "the check takes nothing"},
    {"aw__inject_is_empty", "aw__load_seq(", "seq_cst",
     "for the last check before a worker sleeps: see idle.c"},
    {0}};

MODEL_ORDERS(the_orders_of_the_inject_queue, "sched/multi/inject.h", harmless,
             &model_what_two_threads_push_is_popped_once_in_the_order_of_each,
             &model_what_comes_after_the_end_is_refused_and_what_came_before_can_be_popped,
             &model_a_queue_with_a_task_does_not_look_empty, &model_what_is_ready_stays_in_sight)
