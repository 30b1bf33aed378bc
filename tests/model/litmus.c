/* SPDX-License-Identifier: MIT
 *
 * The model checker itself, by litmus tests: what is forbidden never happens, and what is
 * allowed is found. */
#include "support/model.h"

static uint32_t x, y, z, seen[4];
static int data;

static void setup(void) {
    x = y = z = 0;
    data = 0;
    memset(seen, 0, sizeof seen);
}

/* ---- Message passing ------------------------------------------------------------------------- */

static void send(void) {
    model_write(&data, 1);
    aw__store_release(&x, 1u);
}
static void receive(void) {
    if (aw__load_acquire(&x)) model_check(model_read(&data) == 1);
}
static void send_relaxed(void) {
    model_write(&data, 1);
    aw__store_relaxed(&x, 1u);
}
static void receive_relaxed(void) {
    if (aw__load_relaxed(&x)) model_check(model_read(&data) == 1);
}

MODEL(a_message_is_passed_by_release_and_acquire, .setup = setup, .threads = {send, receive})
MODEL_BROKEN(a_message_is_not_passed_by_a_relaxed_store, "data race", .setup = setup,
             .threads = {send_relaxed, receive})
MODEL_BROKEN(a_message_is_not_passed_by_a_relaxed_load, "data race", .setup = setup,
             .threads = {send, receive_relaxed})

/* The same without plain data: the old value of y shows it. */
static void store_both(void) {
    aw__store_relaxed(&y, 1u);
    aw__store_release(&x, 1u);
}
static void store_both_relaxed(void) {
    aw__store_relaxed(&y, 1u);
    aw__store_relaxed(&x, 1u);
}
static void load_both(void) {
    if (aw__load_acquire(&x)) model_check(aw__load_relaxed(&y) == 1);
}
static void load_both_relaxed(void) {
    if (aw__load_relaxed(&x)) model_check(aw__load_relaxed(&y) == 1);
}

MODEL(stores_before_a_release_are_seen, .setup = setup, .threads = {store_both, load_both})
MODEL_BROKEN(relaxed_stores_are_seen_in_any_order, "== 1", .setup = setup,
             .threads = {store_both_relaxed, load_both})
MODEL_BROKEN(relaxed_loads_are_done_in_any_order, "== 1", .setup = setup,
             .threads = {store_both, load_both_relaxed})

/* ---- Fences ---------------------------------------------------------------------------------- */

static void send_by_fence(void) {
    model_write(&data, 1);
    aw__fence_release();
    aw__store_relaxed(&x, 1u);
}
static void receive_by_fence(void) {
    if (!aw__load_relaxed(&x)) return;
    aw__fence_acquire();
    model_check(model_read(&data) == 1);
}
static void send_before_fence(void) {
    aw__fence_release();
    model_write(&data, 1);
    aw__store_relaxed(&x, 1u);
}

MODEL(a_message_is_passed_by_fences, .setup = setup, .threads = {send_by_fence, receive_by_fence})
MODEL(a_fence_passes_a_message_to_an_acquire, .setup = setup, .threads = {send_by_fence, receive})
MODEL_BROKEN(a_fence_does_not_cover_what_comes_after_it, "data race", .setup = setup,
             .threads = {send_before_fence, receive})

/* ---- Release sequences ----------------------------------------------------------------------- */

static void add_relaxed(void) {
    aw__fetch_add_relaxed(&x, 1u);
}
static void overwrite(void) {
    if (aw__load_relaxed(&x) == 1) aw__store_relaxed(&x, 2u);
}
static void receive_two(void) {
    if (aw__load_acquire(&x) == 2) model_check(model_read(&data) == 1);
}

MODEL(a_read_modify_write_goes_on_with_a_release_sequence, .setup = setup,
      .threads = {send, add_relaxed, receive_two})
MODEL_BROKEN(a_store_ends_a_release_sequence, "data race", .setup = setup,
             .threads = {send, overwrite, receive_two})

/* A thread passes on what it has learned. */
static void relay(void) {
    if (aw__load_acquire(&x)) aw__store_release(&y, 1u);
}
static void receive_relayed(void) {
    if (aw__load_acquire(&y)) model_check(model_read(&data) == 1 && aw__load_relaxed(&x) == 1);
}

MODEL(happens_before_is_transitive, .setup = setup, .threads = {send, relay, receive_relayed})

/* ---- Store buffering ------------------------------------------------------------------------- */

#define BUFFERING(name, store, between, load)                                                      \
    static void name##_x(void) {                                                                   \
        store(&x, 1u);                                                                             \
        between;                                                                                   \
        seen[0] = load(&y);                                                                        \
    }                                                                                              \
    static void name##_y(void) {                                                                   \
        store(&y, 1u);                                                                             \
        between;                                                                                   \
        seen[1] = load(&x);                                                                        \
    }
BUFFERING(relaxed, aw__store_relaxed, (void)0, aw__load_relaxed)
BUFFERING(ordered, aw__store_release, (void)0, aw__load_acquire)
BUFFERING(fenced, aw__store_relaxed, aw__fence_seq(), aw__load_relaxed)
BUFFERING(seq, aw__store_seq, (void)0, aw__load_seq)
BUFFERING(swapped, (void)aw__exchange, (void)0, aw__load_acquire)

static void one_is_seen(void) {
    model_check(seen[0] || seen[1]);
}

MODEL_BROKEN(relaxed_stores_are_buffered, "seen[0] || seen[1]", .setup = setup,
             .threads = {relaxed_x, relaxed_y}, .check = one_is_seen)
MODEL_BROKEN(release_and_acquire_do_not_keep_stores_from_being_buffered, "seen[0] || seen[1]",
             .setup = setup, .threads = {ordered_x, ordered_y}, .check = one_is_seen)
MODEL_BROKEN(an_exchange_does_not_keep_a_store_from_being_buffered, "seen[0] || seen[1]",
             .setup = setup, .threads = {swapped_x, swapped_y}, .check = one_is_seen)
MODEL(a_fence_of_both_threads_empties_the_buffers, .setup = setup, .threads = {fenced_x, fenced_y},
      .check = one_is_seen)
MODEL(seq_cst_operations_are_not_buffered, .setup = setup, .threads = {seq_x, seq_y},
      .check = one_is_seen)
MODEL_BROKEN(one_seq_cst_thread_is_not_enough, "seen[0] || seen[1]", .setup = setup,
             .threads = {seq_x, ordered_y}, .check = one_is_seen)

/* A fence on one side, operations on the other: they are ordered with each other. */
MODEL(a_fence_and_seq_cst_operations_are_in_one_order, .setup = setup, .threads = {fenced_x, seq_y},
      .check = one_is_seen)

/* ---- Independent reads of independent writes ------------------------------------------------- */

#define READERS(name, load)                                                                        \
    static void name##_xy(void) {                                                                  \
        seen[0] = load(&x);                                                                        \
        seen[1] = load(&y);                                                                        \
    }                                                                                              \
    static void name##_yx(void) {                                                                  \
        seen[2] = load(&y);                                                                        \
        seen[3] = load(&x);                                                                        \
    }
READERS(acquire, aw__load_acquire)
READERS(seq_read, aw__load_seq)

static void release_x(void) {
    aw__store_release(&x, 1u);
}
static void release_y(void) {
    aw__store_release(&y, 1u);
}
static void seq_store_x(void) {
    aw__store_seq(&x, 1u);
}
static void seq_store_y(void) {
    aw__store_seq(&y, 1u);
}
static void readers_agree(void) {
    model_check(!(seen[0] && !seen[1] && seen[2] && !seen[3]));
}

MODEL_BROKEN(two_readers_may_see_two_stores_in_different_orders, "!seen[1]", .setup = setup,
             .threads = {release_x, release_y, acquire_xy, acquire_yx}, .check = readers_agree,
             .stale = 2)
MODEL(two_readers_see_seq_cst_stores_in_one_order, .setup = setup,
      .threads = {seq_store_x, seq_store_y, seq_read_xy, seq_read_yx}, .check = readers_agree)

/* ---- Coherence ------------------------------------------------------------------------------- */

static void count_to_two(void) {
    aw__store_relaxed(&x, 1u);
    aw__store_relaxed(&x, 2u);
}
static void read_twice(void) {
    uint32_t first = aw__load_relaxed(&x);
    model_check(aw__load_relaxed(&x) >= first);
}
static void write_and_read(void) {
    aw__store_relaxed(&x, 3u);
    uint32_t now = aw__load_relaxed(&x);
    model_check(now != 0);
}
/* A value that another thread has read before it signalled is not forgotten. */
static void read_and_tell(void) {
    model_write(&data, (int)aw__load_relaxed(&x));
    aw__store_release(&y, 1u);
}
static void read_when_told(void) {
    if (aw__load_acquire(&y)) model_check((int)aw__load_relaxed(&x) >= model_read(&data));
}
static void read_an_old_value(void) {
    if (aw__load_relaxed(&x) == 2) seen[0] = 1;
    if (aw__load_relaxed(&x) == 1 && model_self() == 1) seen[1] = 1;
}
static void saw_no_old_value(void) {
    model_check(!seen[1]);
}

MODEL(a_location_does_not_go_back, .setup = setup,
      .threads = {count_to_two, read_twice, read_twice})
MODEL(nothing_older_than_the_own_store_is_read, .setup = setup,
      .threads = {count_to_two, write_and_read})
MODEL(what_another_has_read_does_not_go_back, .setup = setup,
      .threads = {count_to_two, read_and_tell, read_when_told})
MODEL_BROKEN(old_values_are_seen_without_any_preemption, "!seen[1]", .setup = setup,
             .threads = {count_to_two, read_an_old_value}, .check = saw_no_old_value,
             .preemptions = MODEL_NONE, .stale = 2)
MODEL(no_old_value_is_seen_when_none_is_allowed, .setup = setup,
      .threads = {count_to_two, read_an_old_value}, .check = saw_no_old_value,
      .preemptions = MODEL_NONE, .stale = MODEL_NONE)

/* ---- Compare-and-swap ------------------------------------------------------------------------ */

static void increment_by_cas(void) {
    uint32_t old = aw__load_relaxed(&x);
    while (!aw__cas(&x, &old, old + 1))
        ;
}
static void increment_by_store(void) {
    aw__store_relaxed(&x, aw__load_relaxed(&x) + 1);
}
static void increment(void) {
    aw__fetch_add(&x, 1u);
}
static void is_three(void) {
    model_check(x == 3);
}

MODEL(no_increment_is_lost, .setup = setup, .threads = {increment, increment_by_cas, add_relaxed},
      .check = is_three)
MODEL_BROKEN(a_load_and_a_store_lose_an_increment, "x == 3", .setup = setup,
             .threads = {increment, increment_by_store, increment}, .check = is_three)

/* A failing compare-and-swap may report an old value. */
static void change_twice(void) {
    aw__store_relaxed(&x, 1u);
    aw__store_relaxed(&x, 2u);
}
static void fail_to_swap(void) {
    uint32_t found = 5;
    if (aw__load_relaxed(&y)) return;
    model_check(!aw__cas(&x, &found, 6u));
    seen[found] = 1;
    model_check(found <= 2);
}
static void not_the_first(void) {
    model_check(!seen[1]);
}
MODEL_BROKEN(a_compare_and_swap_may_fail_for_an_old_value, "!seen[1]", .setup = setup,
             .threads = {change_twice, fail_to_swap}, .check = not_the_first,
             .preemptions = MODEL_NONE)

/* ---- Not modelled ---------------------------------------------------------------------------- */

static void load_then_store_x(void) {
    seen[0] = aw__load_relaxed(&y);
    aw__store_relaxed(&x, 1u);
}
static void load_then_store_y(void) {
    seen[1] = aw__load_relaxed(&x);
    aw__store_relaxed(&y, 1u);
}
static void not_from_the_future(void) {
    model_check(!seen[0] || !seen[1]);
}
/* C11 allows this, and some processors do it. */
MODEL(load_buffering_is_not_modelled, .setup = setup,
      .threads = {load_then_store_x, load_then_store_y}, .check = not_from_the_future)

/* ---- Peterson's lock ------------------------------------------------------------------------- */

static uint32_t wants[2], turn;

static void setup_peterson(void) {
    setup();
    wants[0] = wants[1] = turn = 0;
}

#define PETERSON(name, store, load)                                                                \
    static void name(void) {                                                                       \
        uint32_t me = (uint32_t)model_self(), other = 1 - me;                                      \
        store(&wants[me], 1u);                                                                     \
        store(&turn, other);                                                                       \
        while (load(&wants[other]) && load(&turn) == other)                                        \
            aw__spin_hint();                                                                       \
        model_write(&data, model_read(&data) + 1);                                                 \
        aw__store_release(&wants[me], 0u);                                                         \
    }
PETERSON(peterson, aw__store_seq, aw__load_seq)
PETERSON(peterson_without_seq, aw__store_release, aw__load_acquire)

static void both_were_in(void) {
    model_check(data == 2);
}

MODEL(petersons_lock_excludes, .setup = setup_peterson, .threads = {peterson, peterson},
      .check = both_were_in, .preemptions = MODEL_UNBOUNDED, .stale = 4)
MODEL_BROKEN(petersons_lock_needs_seq_cst, "data race", .setup = setup_peterson,
             .threads = {peterson_without_seq, peterson_without_seq}, .check = both_were_in)
