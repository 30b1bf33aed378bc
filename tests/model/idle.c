/* SPDX-License-Identifier: MIT
 *
 * os/idle.h under every schedule: two or three workers that search for work and sleep like
 * worker.c, on queues that only count, and other threads that push. No wake-up is lost: no task
 * waits while a worker sleeps. To show this, each task keeps its worker until all tasks have
 * begun. */
#include "support/model.h"

#include <sched.h>
#define sched_yield() model_yield()

#define aw__lock_slow aw__lock_slow_modelled /* next to the library's */
#include "os/lock.c"
#include "os/idle.h"

enum { WORKERS = 3 };

struct worker {
    aw__sleeper sleeper;
    uint32_t park_word;
    uint32_t ring; /* 1: it contains a task */
    bool searching;
};

static aw__idle idle;
static struct worker workers[WORKERS];
static uint32_t incoming, ready, inject_lock, ran, stopped;
static uint32_t monitor_asleep, monitor_word, stuck, freed;
static bool watched; /* there is a monitor, and a task is stuck until it has looked */
static uint32_t wanted;
static bool spawns; /* the first task spawns the second */
/* Steps that a worker leaves out, so that a worker sleeps too long. */
static bool omits_check, omits_check_unless_searching, omits_notify, omits_notify_of_hidden;

static void setup_tasks(uint32_t count, uint32_t tasks) {
    memset(workers, 0, sizeof workers);
    idle = (aw__idle){.workers = count};
    incoming = ready = inject_lock = ran = stopped = 0;
    monitor_asleep = monitor_word = stuck = freed = 0;
    watched = false;
    wanted = tasks;
    spawns = omits_check = omits_check_unless_searching = omits_notify = omits_notify_of_hidden =
        false;
}

/* ---- The queues: ring.h and inject.h without contents ---------------------------------------- */

static void notify(void) {
    aw__sleeper *s = aw__idle_notify(&idle);
    if (s) model_unpark(&((struct worker *)(void *)s)->park_word);
}

static void push_incoming(uint32_t n) {
    uint32_t old = aw__load_relaxed(&incoming);
    while (!aw__cas_seq(&incoming, &old, old + n)) {
    }
}
static void push_ring(struct worker *w) {
    aw__store_seq(&w->ring, 1u);
}
static bool take_ring(struct worker *w) {
    uint32_t one = aw__load_acquire(&w->ring);
    return one && aw__cas(&w->ring, &one, 0u);
}
static bool injected(void) {
    return aw__load_seq(&incoming) || aw__load_seq(&ready);
}
/* Takes one task. The others are hidden for a moment, so another worker must be notified
 * afterwards. */
static bool take_injected(void) {
    if (!injected()) return false;
    aw__lock(&inject_lock);
    uint32_t n = aw__load_relaxed(&ready);
    bool hidden = false;
    if (!n && aw__load_relaxed(&incoming)) {
        n = aw__exchange(&incoming, 0u);
        hidden = n > 1;
    }
    if (n) aw__store_seq(&ready, n - 1);
    aw__unlock(&inject_lock);
    if (hidden && !omits_notify_of_hidden) notify();
    return n > 0;
}

/* ---- The workers ----------------------------------------------------------------------------- */

static bool steal(const struct worker *w) {
    for (uint32_t i = 0; i < idle.workers; i++)
        if (&workers[i] != w && take_ring(&workers[i])) return true;
    return take_injected();
}

static bool take(struct worker *w) {
    if (take_ring(w) || take_injected()) return true;
    if (!w->searching && !(w->searching = aw__idle_search(&idle))) return false;
    return steal(w);
}

static bool any_task(void) {
    if (injected()) return true;
    for (uint32_t i = 0; i < idle.workers; i++)
        if (aw__load_seq(&workers[i].ring)) return true;
    return false;
}

static void park(struct worker *w) {
    bool last = aw__idle_park(&idle, &w->sleeper, w->searching);
    if (omits_check || (omits_check_unless_searching && !w->searching)) last = false;
    if (!(last && any_task()) && !aw__load_acquire(&stopped)) model_park(&w->park_word);
    w->searching = aw__idle_unpark(&idle, &w->sleeper);
    if (watched && aw__load_seq(&monitor_asleep)) model_unpark(&monitor_word);
}

static bool all_have_begun(void *unused) {
    (void)unused;
    return ran == wanted;
}

static bool is_freed(void *unused) {
    (void)unused;
    return freed;
}

static void run(struct worker *w) {
    if (watched) {
        aw__store_relaxed(&stuck, 1u);
        model_wait(is_freed, NULL);
    }
    uint32_t n = aw__fetch_add_relaxed(&ran, 1u) + 1;
    if (spawns && n < wanted) {
        push_ring(w);
        notify();
    }
    if (n < wanted) {
        model_wait(all_have_begun, NULL);
        return;
    }
    aw__store_release(&stopped, 1u);
    for (uint32_t i = 0; i < idle.workers; i++)
        model_unpark(&workers[i].park_word);
}

static void work(void) {
    struct worker *w = &workers[model_self()];
    while (!aw__load_acquire(&stopped)) {
        if (!take(w)) {
            park(w);
            continue;
        }
        if (w->searching) {
            w->searching = false;
            if (aw__idle_found(&idle) && !omits_notify) notify();
        }
        run(w);
    }
}

/* Like aw__monitor_main: looks from time to time while a worker is awake. */
static void watch(void) {
    while (!aw__load_relaxed(&freed)) {
        aw__store_seq(&monitor_asleep, 1u);
        if (aw__idle_parked(aw__load_seq(&idle.word)) == idle.workers) {
            model_park(&monitor_word);
        } else {
            model_yield();
        }
        aw__store_seq(&monitor_asleep, 0u);
        if (aw__load_relaxed(&stuck)) aw__store_relaxed(&freed, 1u);
    }
}

/* ---- The other threads ----------------------------------------------------------------------- */

static void push(void) {
    push_incoming(1);
    notify();
}
static void push_twice(void) {
    push();
    push();
}
static void push_two_at_once(void) {
    push_incoming(2);
    notify();
}
/* For a pinned task or a timer: this worker must look, whichever others are awake. */
static void unpark_first(void) {
    push();
    model_unpark(&workers[0].park_word);
}

static void setup_two(void) {
    setup_tasks(2, 2);
}
static void setup_watched(void) {
    setup_tasks(1, 1);
    watched = true;
}
static void setup_three(void) {
    setup_tasks(3, 2);
}
/* The first worker has a task, which spawns another one. */
static void setup_spawning(void) {
    setup_tasks(2, 2);
    spawns = true;
    workers[0].ring = 1;
}
static void setup_spawning_of_three(void) {
    setup_tasks(3, 2);
    spawns = true;
    workers[0].ring = 1;
}
/* The searchers are counted, and no worker is in the list. */
static void the_counts_are_right(void) {
    uint32_t searching = 0;
    for (int i = 0; i < WORKERS; i++) {
        searching += workers[i].searching;
        model_check(!workers[i].sleeper.listed);
    }
    model_check(idle.word == searching && !idle.first && !idle.lock);
    model_check(ran == wanted && !incoming && !ready);
}

MODEL(two_tasks_from_two_threads_get_a_worker_each, .setup = setup_two,
      .threads = {work, work, push, push}, .check = the_counts_are_right, .preemptions = 1,
      .stale = 1)
MODEL(two_tasks_from_one_thread_get_a_worker_each, .setup = setup_two,
      .threads = {work, work, push_twice}, .check = the_counts_are_right, .stale = 1)
MODEL(tasks_that_were_hidden_for_a_moment_get_a_worker, .setup = setup_two,
      .threads = {work, work, push_two_at_once}, .check = the_counts_are_right, .stale = 1)
MODEL(what_a_worker_pushes_gets_another_one, .setup = setup_spawning, .threads = {work, work},
      .check = the_counts_are_right, .preemptions = 3)
MODEL(one_of_three_workers_comes, .setup = setup_spawning_of_three, .threads = {work, work, work},
      .check = the_counts_are_right, .stale = MODEL_NONE)
MODEL(three_workers_do_not_trust_each_other_too_much, .setup = setup_three,
      .threads = {work, work, work, push_twice}, .check = the_counts_are_right, .preemptions = 1,
      .stale = 1)
MODEL(a_worker_may_be_woken_for_another_reason, .setup = setup_two,
      .threads = {work, work, push, unpark_first}, .check = the_counts_are_right, .preemptions = 1,
      .stale = 1)

MODEL(the_monitor_does_not_sleep_while_a_worker_is_stuck, .setup = setup_watched,
      .threads = {work, watch, push}, .check = the_counts_are_right)

/* ---- Mistakes -------------------------------------------------------------------------------- */

static void setup_without_check(void) {
    setup_two();
    omits_check = true;
}
static void setup_without_check_unless_searching(void) {
    setup_two();
    omits_check_unless_searching = true;
}
static void setup_without_notify(void) {
    setup_two();
    omits_notify = true;
}
static void setup_without_notify_of_hidden(void) {
    setup_two();
    omits_notify_of_hidden = true;
}

MODEL_BROKEN(a_worker_that_does_not_check_before_it_sleeps_misses_a_task, "deadlock",
             .setup = setup_without_check, .threads = {work, work, push_twice})
MODEL_BROKEN(a_worker_that_may_not_search_must_check_too_if_none_searches, "deadlock",
             .setup = setup_without_check_unless_searching, .threads = {work, work, push_twice})
MODEL_BROKEN(the_last_searcher_that_finds_a_task_must_notify_another, "deadlock",
             .setup = setup_without_notify, .threads = {work, work, push_twice})
MODEL_BROKEN(a_worker_that_hides_tasks_must_notify_another, "deadlock",
             .setup = setup_without_notify_of_hidden, .threads = {work, work, push_two_at_once},
             .preemptions = 4)

/* ---- Orders ---------------------------------------------------------------------------------- */

/* Smaller models: a missing order shows in them, too. */
static void setup_one(void) {
    setup_tasks(1, 1);
}
MODEL(one_worker_does_not_miss_a_push, .setup = setup_one, .threads = {work, push},
      .check = the_counts_are_right, .preemptions = 4)
MODEL(two_workers_do_not_miss_two_pushes, .setup = setup_two, .threads = {work, work, push_twice},
      .check = the_counts_are_right, .preemptions = 1)

/* Only numbers are passed on here, so seq_cst is what matters: of the push and the check for
 * sleepers, against falling asleep and the check of the queues; and of waking up, for the
 * monitor. The list is guarded by the lock, a token by its park word. The contents of the queues
 * are not part of this file. */
static const struct model_harmless harmless[] = {
    {"aw__idle_notify", "aw__load_seq(", "acquire", "the list is read under the lock"},
    {"aw__idle_notify", "aw__fetch_add_seq(", "acquire", "likewise"},
    {"aw__idle_notify", "aw__fetch_add_seq(", "release", "likewise"},
    {"aw__idle_search", "aw__fetch_add_seq(", "acquire", "a number"},
    {"aw__idle_search", "aw__fetch_add_seq(", "release", "a number"},
    {"aw__idle_search", "aw__fetch_add_seq(", "seq_cst",
     "a push that misses a searcher wakes one more"},
    {"aw__idle_found", "aw__fetch_add_seq(", "acquire", "a number"},
    {"aw__idle_found", "aw__fetch_add_seq(", "release",
     "what it has moved was pushed with seq_cst"},
    {"aw__idle_found", "aw__fetch_add_seq(", "seq_cst",
     "a push that still sees it search comes before the next worker falls asleep, which is "
     "seq_cst: either that worker checks, or the last searcher to find a task notifies"},
    {"aw__idle_park", "aw__fetch_add_seq(", "acquire", "the list is read under the lock"},
    {"aw__idle_park", "aw__fetch_add_seq(", "release", "likewise"},
    {"aw__idle_unpark", "aw__fetch_add_seq(", "acquire", "likewise"},
    {"aw__idle_unpark", "aw__fetch_add_seq(", "release", "likewise"},
    {0}};

MODEL_ORDERS(the_orders_of_sleeping, "os/idle.h", harmless, &model_one_worker_does_not_miss_a_push,
             &model_two_workers_do_not_miss_two_pushes,
             &model_what_a_worker_pushes_gets_another_one,
             &model_the_monitor_does_not_sleep_while_a_worker_is_stuck)

/* Orders of the queues that the headers have for the sake of idle.h. */
static const struct model_harmless of_queues[] = {
    {"push_incoming", "aw__cas_seq(", "acquire", "these queues have no contents"},
    {"push_incoming", "aw__cas_seq(", "release", "likewise"},
    {"push_incoming", "aw__cas_seq(", "failure", "likewise"},
    {"push_ring", "aw__store_seq(", "release", "likewise"},
    {"take_ring", "aw__load_acquire(", "acquire", "likewise"},
    {"take_ring", "aw__cas(", "acquire", "likewise"},
    {"take_ring", "aw__cas(", "release", "likewise"},
    {"take_ring", "aw__cas(", "failure", "likewise"},
    {"injected", "aw__load_seq(", "acquire", "likewise"},
    {"take_injected", "aw__exchange(", "acquire", "these queues have no contents"},
    {"take_injected", "aw__exchange(", "release", "likewise"},
    {"take_injected", "aw__store_seq(", "release", "likewise"},
    {"any_task", "aw__load_seq(", "acquire", "these queues have no contents"},
    {"run", "aw__store_release(", "release", "a flag, which goes with a token"},
    {"work", "aw__load_acquire(", "acquire", "likewise"},
    {"park", "aw__load_acquire(", "acquire", "likewise"},
    {"notify", "model_unpark(", "acquire", "nothing follows the wake"},
    {"notify", "model_unpark(", "release", "a token; the list is guarded by the lock"},
    {"run", "model_unpark(", "acquire", "nothing follows the wake"},
    {"run", "model_unpark(", "release",
     "the flag is read twice before it sleeps again: two old values would be needed"},
    {"park", "model_park(", "acquire", "likewise"},
    {"park", "model_park(", "release", "a sleeping worker passes on nothing"},
    {0}};

MODEL_ORDERS(the_orders_of_the_queues_for_sleeping, "model/idle.c", of_queues,
             &model_one_worker_does_not_miss_a_push, &model_two_workers_do_not_miss_two_pushes,
             &model_what_a_worker_pushes_gets_another_one)
