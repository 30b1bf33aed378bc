/* SPDX-License-Identifier: MIT
 *
 * The model checker itself: what it explores, what it finds, and what it reports. */
#include "support/model.h"

#include <sys/wait.h>

static uint32_t x, y, word, a, b;
static int data;
static void *shared;

static void setup(void) {
    x = y = word = a = b = 0;
    data = 0;
    shared = NULL;
}

/* ---- Every schedule -------------------------------------------------------------------------- */

static void store_twice(void) {
    aw__store_relaxed(&x, 1u);
    aw__store_relaxed(&x, 2u);
}

static uint64_t executions(int preemptions, int threads) {
    struct model m = {.setup = setup, .preemptions = preemptions};
    for (int i = 0; i < threads; i++)
        m.threads[i] = store_twice;
    struct model_result r = model_explore(&m);
    CHECK(!r.failure);
    CHECK_EQ(r.steps, 2 * threads);
    return r.executions;
}

TEST(each_order_of_the_steps_is_executed_once) {
    CHECK_EQ(executions(MODEL_UNBOUNDED, 2), 6);  /* 4! / 2! 2! */
    CHECK_EQ(executions(MODEL_UNBOUNDED, 3), 90); /* 6! / 2! 2! 2! */
    CHECK_EQ(executions(MODEL_UNBOUNDED, 4), 2520);
}

TEST(a_bound_allows_that_many_preemptions) {
    CHECK_EQ(executions(MODEL_NONE, 2), 2);
    CHECK_EQ(executions(1, 2), 4);
    CHECK_EQ(executions(2, 2), 6);
    CHECK_EQ(executions(MODEL_NONE, 3), 6);
}

static bool was_chosen[3][2];

static void choose(void) {
    int i = model_choose(3);
    was_chosen[i][model_choose(2)] = true;
}

TEST(each_choice_is_made_once) {
    struct model_result r = model_explore(&(struct model){.threads = {choose}});
    CHECK_EQ(r.executions, 6);
    for (int i = 0; i < 6; i++)
        CHECK(was_chosen[i / 2][i % 2]);
}

TEST(a_limit_that_is_exceeded_is_not_success) {
    struct model_result r = model_explore(
        &(struct model){.setup = setup, .threads = {store_twice, store_twice}, .limit = 5});
    CHECK(r.exceeded);
    CHECK_CONTAINS(r.failure, "more executions");
}

static int forgotten;

static void depend_on_the_past(void) {
    if (forgotten++) aw__store_relaxed(&x, 1u);
    (void)model_choose(2);
}

MODEL_BROKEN(a_variable_that_setup_forgets_is_noticed, "does setup set everything", .setup = setup,
             .threads = {depend_on_the_past})

/* ---- Data races ------------------------------------------------------------------------------ */

static void write_data(void) {
    model_write(&data, 1);
}
static void read_data(void) {
    (void)model_read(&data);
}
static void read_word(void) {
    (void)aw__load_acquire(&word);
}
static void write_word_plainly(void) {
    model_write(&word, 1u);
}

MODEL_BROKEN(a_plain_write_races_with_a_read, "data race: read by thread 1", .setup = setup,
             .threads = {write_data, read_data})
MODEL_BROKEN(a_plain_write_races_with_an_atomic_read, "data race: atomic read by thread 1",
             .setup = setup, .threads = {write_word_plainly, read_word})

TEST(plain_reads_do_not_race) {
    struct model_result r = model_explore(
        &(struct model){.setup = setup, .threads = {read_data, read_data}});
    CHECK(!r.failure);
    CHECK_EQ(r.executions, 2);
}

#if defined(MODEL_SEES_PLAIN)
static struct { uint16_t first, second; } halves;

static void write_first(void) {
    halves.first = 1;
}
static void write_second(void) {
    halves.second = 1;
}
static void read_first(void) {
    if (halves.first) model_check(model_self() == 1);
}

MODEL(neighbours_do_not_race, .setup = setup, .threads = {write_first, write_second})
MODEL_BROKEN(plain_code_that_says_nothing_is_seen_too, "data race", .setup = setup,
             .threads = {write_first, read_first})
#endif

/* A location that is written plainly by its only owner, and then passed on, starts anew. */
static void renew(void) {
    aw__store_relaxed(&word, 1u);
    aw__store_relaxed(&word, 2u);
    model_write(&word, 7u);
    aw__store_release(&x, 1u);
}
static void use_renewed(void) {
    if (aw__load_acquire(&x)) model_check(aw__load_relaxed(&word) == 7);
}
MODEL(a_plain_write_begins_a_location_anew, .setup = setup, .threads = {renew, use_renewed})

/* ---- Memory ---------------------------------------------------------------------------------- */

static void setup_block(void) {
    setup();
    shared = model_alloc(16);
    x = 2; /* references */
}
static void unreference(void) {
    model_write((int *)shared + model_self(), 1);
    if (aw__fetch_sub(&x, 1u) == 1) model_free(shared);
}
static void unreference_relaxed(void) {
    model_write((int *)shared + model_self(), 1);
    if (aw__fetch_add_relaxed(&x, (uint32_t)-1) == 1) model_free(shared);
}
static void is_freed(void) {
    model_check(model_allocated() == 0);
}
static void free_at_once(void) {
    aw__store_relaxed(&y, 1u);
    model_free(shared);
}
static void use_block(void) {
    (void)aw__load_relaxed((uint32_t *)shared);
}
static void keep(void) {
    aw__fetch_sub(&x, 1u);
}

MODEL(the_last_reference_frees, .setup = setup_block, .threads = {unreference, unreference},
      .check = is_freed)
MODEL_BROKEN(relaxed_references_free_too_early, "data race: free by", .setup = setup_block,
             .threads = {unreference_relaxed, unreference_relaxed})
MODEL_BROKEN(a_use_after_free_is_found, "use after free by thread 1", .setup = setup_block,
             .threads = {free_at_once, use_block})
MODEL_BROKEN(a_use_that_could_come_after_a_free_is_found, "data race: free by thread 1",
             .setup = setup_block, .threads = {use_block, free_at_once})
MODEL_BROKEN(a_second_free_is_found, "freed before", .setup = setup_block,
             .threads = {free_at_once, free_at_once})
MODEL_BROKEN(a_leak_is_found, "model_allocated() == 0", .setup = setup_block,
             .threads = {keep, keep}, .check = is_freed)

/* ---- Waiting --------------------------------------------------------------------------------- */

static void announce(void) {
    model_write(&data, 1);
    aw__store_release(&x, 1u);
    model_unpark(&word);
}
static void await_token(void) {
    model_park(&word);
    model_check(model_read(&data) == 1);
}
static void announce_to_sleeper(void) {
    aw__store_release(&x, 1u);
    if (aw__load_acquire(&y)) model_unpark(&word);
}
static void sleep_unless_announced(void) {
    aw__store_release(&y, 1u);
    if (!aw__load_acquire(&x)) model_park(&word);
}
static void announce_to_sleeper_in_order(void) {
    aw__store_seq(&x, 1u);
    if (aw__load_seq(&y)) model_unpark(&word);
}
static void sleep_unless_announced_in_order(void) {
    aw__store_seq(&y, 1u);
    if (!aw__load_seq(&x)) model_park(&word);
}

MODEL(a_token_passes_on_what_was_before_it, .setup = setup, .threads = {announce, await_token})
MODEL_BROKEN(a_wake_up_that_an_old_value_prevents_is_lost, "deadlock: thread 1 waits",
             .setup = setup, .threads = {announce_to_sleeper, sleep_unless_announced})
MODEL(no_wake_up_is_lost_between_seq_cst_operations, .setup = setup,
      .threads = {announce_to_sleeper_in_order, sleep_unless_announced_in_order})

static void wake_by_futex(void) {
    aw__store_release(&word, 1u);
    model_futex_wake(&word, 1);
}
static void sleep_by_futex(void) {
    while (!aw__load_acquire(&word))
        model_futex_wait(&word, 0, false);
}
static void sleep_by_futex_without_looking(void) {
    if (!aw__load_acquire(&word)) model_futex_wait(&word, aw__load_relaxed(&word), false);
}
static void sleep_for_a_while(void) {
    if (!aw__load_acquire(&word)) model_futex_wait(&word, 0, true);
    data = 1;
}
static void ends(void) {
    model_check(data == 1);
}

MODEL(a_futex_compares_before_it_sleeps, .setup = setup, .threads = {wake_by_futex, sleep_by_futex})
MODEL_BROKEN(a_futex_that_compares_with_something_new_sleeps_on, "deadlock", .setup = setup,
             .threads = {wake_by_futex, sleep_by_futex_without_looking})
MODEL(a_sleep_with_a_time_limit_ends, .setup = setup, .threads = {sleep_for_a_while, read_word},
      .check = ends)

static void two_locks(uint32_t *first, uint32_t *second) {
    while (aw__exchange(first, 1u))
        aw__spin_hint();
    while (aw__exchange(second, 1u))
        aw__spin_hint();
    aw__store_release(second, 0u);
    aw__store_release(first, 0u);
}
static void a_then_b(void) {
    two_locks(&a, &b);
}
static void b_then_a(void) {
    two_locks(&b, &a);
}

MODEL(locks_in_one_order_are_fine, .setup = setup, .threads = {a_then_b, a_then_b, a_then_b},
      .preemptions = 2)
MODEL_BROKEN(spinning_for_each_other_is_found, "no end after", .setup = setup,
             .threads = {a_then_b, b_then_a})

static void spin(void) {
    while (!aw__load_acquire(&x))
        aw__spin_hint();
}
static void store_x(void) {
    aw__store_release(&x, 1u);
}

MODEL(a_spinning_thread_sees_the_store_in_the_end, .setup = setup, .threads = {spin, spin, store_x})
MODEL_BROKEN(spinning_for_nothing_is_found, "livelock: thread 0", .setup = setup,
             .threads = {spin, read_word})

static bool is_two(void *p) {
    return *(uint32_t *)p == 2;
}
static void wait_for_two(void) {
    model_wait(is_two, &x);
}

MODEL(a_condition_is_waited_for, .setup = setup, .threads = {wait_for_two, store_twice})
MODEL_BROKEN(a_condition_that_never_holds_is_a_deadlock, "waits at", .setup = setup,
             .threads = {wait_for_two, store_x})

/* ---- Locals ---------------------------------------------------------------------------------- */

static _Thread_local int local;

static void setup_local(void) {
    setup();
    local = 5;
    model_thread_local(&local, sizeof local);
}
static void use_local(void) {
    model_check(local == 5);
    local = model_self();
    aw__store_relaxed(&x, 1u);
    aw__store_relaxed(&x, 2u);
    model_check(local == model_self());
}
MODEL(each_thread_has_its_own_locals, .setup = setup_local, .threads = {use_local, use_local})

/* ---- Reports --------------------------------------------------------------------------------- */

static void store_data_late(void) {
    aw__store_relaxed(&x, 1u);
    aw__store_relaxed(&data, 1);
}
static void trust_x(void) {
    uint32_t seen = 3;
    if (!aw__cas(&x, &seen, 4u) && seen == 1) model_check(aw__load_acquire(&data) == 1);
}

TEST(a_failure_tells_its_schedule_and_is_the_same_each_time) {
    static const struct model m = {.setup = setup, .threads = {store_data_late, trust_x}};
    struct model_result r = model_explore(&m);
    CHECK(r.failure);
    char *first = strdup(r.failure);
    CHECK_CONTAINS(first, "CHECK(aw__load_acquire(&data) == 1)\n");
    CHECK_CONTAINS(first, "    1  thread 0  ");
    CHECK_CONTAINS(first, "model/checker.c:");
    CHECK_CONTAINS(first, "  aw__store_relaxed(&x, 1u)  0 -> 1\n");
    CHECK_CONTAINS(first, "  aw__cas(&x, &seen, 4u)  fails = 1\n");
    CHECK_CONTAINS(first, "  aw__load_acquire(&data)  = 0 (old: it is 1)\n");
    uint64_t executions_before = r.executions;
    r = model_explore(&m);
    CHECK_STR(r.failure, first);
    CHECK_EQ(r.executions, executions_before);
    free(first);
}

/* ---- Leaving out orders ---------------------------------------------------------------------- */

static void send(void) {
    model_write(&data, 1);
    aw__store_release(&x, 1u);
}
static void receive(void) {
    if (aw__load_acquire(&x)) model_check(model_read(&data) == 1);
}
static void receive_with_too_much(void) {
    (void)aw__load_acquire(&y);
    receive();
}

MODEL(a_message, .setup = setup, .threads = {send, receive})
MODEL(a_message_with_too_much, .setup = setup, .threads = {send, receive_with_too_much})

MODEL_ORDERS(orders_that_matter_are_noticed, "model/checker.c", model_all_matter, &model_a_message)

static const struct model_harmless y_is_harmless[] = {
    {"receive_with_too_much", "aw__load_acquire(&y)", "acquire", "y is never stored"}, {0}};
static const struct model_harmless x_is_harmless[] = {
    {"send", "aw__store_release(&x", "release", "wrong"}, {0}};
static const struct model_harmless z_is_harmless[] = {
    {"send", "aw__store_release(&z", "release", "there is none"}, {0}};

MODEL_ORDERS(an_order_may_be_called_harmless, "model/checker.c", y_is_harmless,
             &model_a_message_with_too_much)

static bool refused(const struct model_harmless *harmless, const struct model *m) {
    struct test_death death = test_death_begin(__FILE__, __LINE__);
    if (death.child == 0) {
        if (!freopen("/dev/null", "w", stdout)) abort();
        model_orders("model/checker.c", harmless, (const struct model *const[]){m, NULL});
        abort(); /* accepted */
    }
    int status;
    waitpid(death.child, &status, 0);
    close(death.output);
    return !WIFSIGNALED(status);
}

TEST(the_list_of_harmless_orders_must_be_right) {
    if (test_under_sanitizer()) SKIP("every order is tried where that is quick");
    CHECK(!refused(y_is_harmless, &model_a_message_with_too_much));
    CHECK(refused(model_all_matter, &model_a_message_with_too_much));
    CHECK(refused(x_is_harmless, &model_a_message));
    CHECK(refused(z_is_harmless, &model_a_message));
}
