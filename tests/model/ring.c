/* SPDX-License-Identifier: MIT
 *
 * workers/ring.h under every schedule, with four places: an owner that fills and empties its ring, and
 * others that steal from it. Each task is run once, by somebody who sees what it brings, and no place is
 * used again while a thief copies from it. */
#include "support/model.h"

#define AW__RING_SIZE 4u
#include "runtime/task.h"

/* The places are atomic for the sake of the language only: who reads one has claimed it before. So they
 * are plain here, and any access that nothing orders is a race. */
#undef aw__load_relaxed
#undef aw__store_relaxed
#define IS_PLACE(p) __builtin_types_compatible_p(__typeof__(p), aw__task **)
#define aw__load_relaxed(p)                                                                        \
    __builtin_choose_expr(IS_PLACE(p), model_read(p),                                              \
                          MODEL__OP(LOAD, MODEL_RELAXED, "aw__load_relaxed(" #p ")", p, 0))
#define aw__store_relaxed(p, v)                                                                    \
    __builtin_choose_expr(                                                                         \
        IS_PLACE(p), model_write(p, v),                                                            \
        (void)MODEL__OP(STORE, MODEL_RELAXED, "aw__store_relaxed(" #p ", " #v ")", p, v))
#include "workers/ring.h"

enum { TASKS = 8, RINGS = 3, FIRST = -2 }; /* the numbers wrap around while they are counted */

static aw__ring rings[RINGS];
static aw__task tasks[TASKS];
static int brings[TASKS], runs[TASKS], pushed;

static void setup(void) {
    memset(tasks, 0, sizeof tasks);
    memset(brings, 0, sizeof brings);
    memset(runs, 0, sizeof runs);
    pushed = 0;
    for (int i = 0; i < RINGS; i++) {
        uint32_t first = (uint32_t)FIRST;
        rings[i] = (aw__ring){.head = aw__ring_head(first, first), .tail = first};
    }
}

/* ---- The threads ------------------------------------------------------------------------------ */

static void run(aw__task *t) {
    long i = t - tasks;
    model_check(i >= 0 && i < TASKS);
    model_check(model_read(&brings[i]) == i + 1);
    runs[i]++;
}

/* As aw__worker_push; what does not fit is run at once. */
static void push(aw__ring *r, int i) {
    model_write(&brings[i], i + 1);
    while (!aw__ring_push(r, &tasks[i])) {
        aw__task *last = NULL, *next;
        aw__task *t = aw__ring_spill(r, &last);
        if (!t) model_yield();
        for (int n = 0; t; t = next, n++) {
            next = t->next;
            model_check(n < 2 && (next || t == last));
            run(t);
        }
    }
}
static void push_next(aw__ring *r, int n) {
    for (int i = 0; i < n; i++)
        push(r, pushed++);
}
static void run_all(aw__ring *r) {
    for (aw__task *t; (t = aw__ring_pop(r));)
        run(t);
}
static void steal_and_run(aw__ring *from, aw__ring *into) {
    aw__task *t = aw__ring_steal(from, into);
    if (t) run(t);
    run_all(into);
}

static void own_three(void) {
    push_next(&rings[0], 3);
    run_all(&rings[0]);
}
static void own_six(void) {
    push_next(&rings[0], 6);
    run_all(&rings[0]);
}
/* Full, then half empty, then as much as fits, with a thief who may still be copying. */
static void own_in_turns(void) {
    push_next(&rings[0], 4);
    for (int i = 0; i < 2; i++) {
        aw__task *t = aw__ring_pop(&rings[0]);
        if (t) run(t);
    }
    push_next(&rings[0], 2);
    run_all(&rings[0]);
}
static void thief(void) {
    int self = model_self();
    steal_and_run(&rings[0], &rings[self]);
}
static void thief_who_comes_again(void) {
    thief();
    thief();
}
static void thief_of_the_thief(void) {
    steal_and_run(&rings[1], &rings[2]);
}

/* ---- Promises --------------------------------------------------------------------------------- */

static void each_has_run_once(void) {
    for (int i = 0; i < pushed; i++)
        model_check(runs[i] == 1);
    for (int i = 0; i < RINGS; i++)
        model_check(aw__ring_is_empty(&rings[i]) && rings[i].head >> 32 == rings[i].tail);
}

MODEL(each_task_is_run_once_by_its_owner_or_by_one_of_two_thieves, .setup = setup,
      .threads = {own_three, thief, thief}, .check = each_has_run_once)
MODEL(half_of_a_full_ring_is_spilled_unless_a_thief_makes_room, .setup = setup,
      .threads = {own_six, thief_who_comes_again}, .check = each_has_run_once)
MODEL(a_place_is_not_used_again_while_a_thief_copies, .setup = setup,
      .threads = {own_in_turns, thief_who_comes_again}, .check = each_has_run_once)
MODEL(what_was_stolen_can_be_stolen_again, .setup = setup,
      .threads = {own_three, thief, thief_of_the_thief}, .check = each_has_run_once)

/* An owner that has nothing left becomes a thief itself, while somebody still copies from its ring. */
static void setup_two_rings(void) {
    setup();
    push_next(&rings[0], 4);
    push_next(&rings[2], 4);
}
static void run_all_then_steal(void) {
    run_all(&rings[0]);
    steal_and_run(&rings[2], &rings[0]);
}
static void all_have_run_once(void) {
    run_all(&rings[2]); /* its owner was away */
    each_has_run_once();
}

MODEL(a_thief_does_not_put_its_loot_where_another_one_copies, .setup = setup_two_rings,
      .threads = {run_all_then_steal, thief}, .check = all_have_run_once)

/* ---- A glance --------------------------------------------------------------------------------- */

static uint32_t told;

static void setup_glance(void) {
    setup();
    told = 0;
}
static void push_tell_and_pop_one(void) {
    push_next(&rings[0], 2);
    aw__store_release(&told, 1u);
    run(aw__ring_pop(&rings[0]));
}
static void glance(void) {
    if (aw__load_acquire(&told)) model_check(!aw__ring_is_empty(&rings[0]));
}

MODEL(a_ring_with_a_task_does_not_look_empty, .setup = setup_glance,
      .threads = {push_tell_and_pop_one, glance, glance})

/* ---- Mistakes --------------------------------------------------------------------------------- */

/* Reads first, and then claims what may be gone. */
static void thief_without_a_claim(void) {
    uint64_t head = aw__load_acquire(&rings[0].head);
    if (aw__load_acquire(&rings[0].tail) == (uint32_t)head) return;
    aw__task *t = aw__load_relaxed(&rings[0].at[(uint32_t)head % AW__RING_SIZE]);
    if (aw__cas(&rings[0].head, &head, aw__ring_head((uint32_t)head + 1, (uint32_t)head + 1)))
        run(t);
}
/* Gives the places back with the claim. */
static void thief_that_claims_for_good(void) {
    uint64_t head = aw__load_acquire(&rings[0].head);
    uint32_t real = (uint32_t)head;
    if (aw__load_acquire(&rings[0].tail) == real || real != head >> 32) return;
    if (!aw__cas(&rings[0].head, &head, aw__ring_head(real + 1, real + 1))) return;
    run(aw__load_relaxed(&rings[0].at[real % AW__RING_SIZE]));
}

MODEL_BROKEN(a_place_that_is_read_before_it_is_claimed_may_be_used_again, "data race",
             .setup = setup, .threads = {own_in_turns, thief_without_a_claim}, .preemptions = 3)
MODEL_BROKEN(a_place_that_is_given_back_with_the_claim_may_be_used_again, "data race",
             .setup = setup, .threads = {own_in_turns, thief_that_claims_for_good},
             .preemptions = 3)

/* ---- Orders ----------------------------------------------------------------------------------- */

/* A task and its place are passed on by `tail` (release, acquire), a place comes back by `head`: from
 * the exchange that ends a theft (release) to the owner who is about to write (acquire), whatever
 * read-modify-writes are in between. `real` by itself brings nothing: it says whose a number is. */
static const struct model_harmless harmless[] = {
    {"aw__ring_push", "aw__store_seq(", "seq_cst",
     "for who then looks whether somebody sleeps: see idle.c"},
    {"aw__ring_steal", "aw__store_seq(", "seq_cst", "likewise"},
    {"aw__ring_pop", "aw__load_acquire(", "acquire", "what it takes was written by the owner"},
    {"aw__ring_pop", "aw__cas(", "acquire", "likewise"},
    {"aw__ring_pop", "aw__cas(", "release", "the owner passes nothing on by taking"},
    {"aw__ring_pop", "aw__cas(", "failure", "the value is for the next try"},
    {"aw__ring_spill", "aw__load_acquire(", "acquire", "what it takes was written by the owner"},
    {"aw__ring_spill", "aw__cas(", "acquire", "likewise"},
    {"aw__ring_spill", "aw__cas(", "release", "the owner passes nothing on by taking"},
    {"aw__ring_spill", "aw__cas(", "failure", "it gives up"},
    {"aw__ring_steal", "aw__load_acquire(&from->head)", "acquire",
     "the places come with tail; when that is older than head there seems to be nothing, or too much"},
    {"aw__ring_steal", "aw__cas(&from->head, &head, aw__ring_head(steal, real + n))", "acquire",
     "the places come with tail"},
    {"aw__ring_steal", "aw__cas(&from->head, &head, aw__ring_head(steal, real + n))", "release",
     "a claim passes nothing on"},
    {"aw__ring_steal", "aw__cas(&from->head, &head, aw__ring_head(steal, real + n))", "failure",
     "the value is for the next try"},
    {"aw__ring_steal", "aw__cas(&from->head, &head, aw__ring_head((uint32_t)head", "acquire",
     "the theft is over"},
    {"aw__ring_steal", "aw__cas(&from->head, &head, aw__ring_head((uint32_t)head", "failure",
     "the value is for the next try"},
    {"aw__ring_is_empty", "aw__load_acquire(", "acquire",
     "an older head is further from a new tail: it looks less empty"},
    {"aw__ring_is_empty", "aw__load_seq(", "acquire", "a glance takes nothing"},
    {"aw__ring_is_empty", "aw__load_seq(", "seq_cst",
     "for who looks once more before it sleeps: see idle.c"},
    {0}};

MODEL_ORDERS(the_orders_of_the_ring, "workers/ring.h", harmless,
             &model_half_of_a_full_ring_is_spilled_unless_a_thief_makes_room,
             &model_a_place_is_not_used_again_while_a_thief_copies,
             &model_what_was_stolen_can_be_stolen_again,
             &model_a_thief_does_not_put_its_loot_where_another_one_copies,
             &model_a_ring_with_a_task_does_not_look_empty)
