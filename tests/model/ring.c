/* SPDX-License-Identifier: MIT
 *
 * sched/multi/ring.h under every schedule, with four slots: an owner that fills and empties its
 * ring, and thieves. Each task is run once, by a thread that sees what it passes on, and no slot
 * is reused while a thief copies from it. */
#include "support/model.h"

#define AW__RING_SIZE 4u
#include "task/task_header.h"

/* The slots are atomic only because the language requires it: a reader has claimed its slot
 * before. So they are plain here, and an unordered access is a race. */
#undef aw__load_relaxed
#undef aw__store_relaxed
#define IS_SLOT(p) __builtin_types_compatible_p(__typeof__(p), aw__task **)
#define aw__load_relaxed(p)                                                                        \
    __builtin_choose_expr(IS_SLOT(p), model_read(p),                                               \
                          MODEL__OP(LOAD, MODEL_RELAXED, "aw__load_relaxed(" #p ")", p, 0))
#define aw__store_relaxed(p, v)                                                                    \
    __builtin_choose_expr(                                                                         \
        IS_SLOT(p), model_write(p, v),                                                             \
        (void)MODEL__OP(STORE, MODEL_RELAXED, "aw__store_relaxed(" #p ", " #v ")", p, v))
#include "sched/multi/ring.h"

enum { TASKS = 8, RINGS = 3, FIRST = -2 }; /* positions wrap around during the models */

static aw__ring rings[RINGS];
static aw__task tasks[TASKS];
static int data[TASKS], runs[TASKS], pushed;

static void setup(void) {
    memset(tasks, 0, sizeof tasks);
    memset(data, 0, sizeof data);
    memset(runs, 0, sizeof runs);
    pushed = 0;
    for (int i = 0; i < RINGS; i++) {
        uint32_t first = (uint32_t)FIRST;
        rings[i] = (aw__ring){.head = aw__ring_head(first, first), .tail = first};
    }
}

/* ---- The threads ----------------------------------------------------------------------------- */

static void run(aw__task *t) {
    long i = t - tasks;
    model_check(i >= 0 && i < TASKS);
    model_check(model_read(&data[i]) == i + 1);
    runs[i]++;
}

/* Like aw__worker_push; tasks that do not fit are run at once. */
static void push(aw__ring *r, int i) {
    model_write(&data[i], i + 1);
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
    for (aw__task *t; (t = aw__ring_pop(r, &(uint32_t){0}));)
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
/* Fills the ring, empties half of it, and fills it again, with a thief that may still be
 * copying. */
static void own_in_turns(void) {
    push_next(&rings[0], 4);
    for (int i = 0; i < 2; i++) {
        aw__task *t = aw__ring_pop(&rings[0], &(uint32_t){0});
        if (t) run(t);
    }
    push_next(&rings[0], 2);
    run_all(&rings[0]);
}
static void thief(void) {
    int self = model_self();
    steal_and_run(&rings[0], &rings[self]);
}
static void thief_that_comes_again(void) {
    thief();
    thief();
}
static void thief_of_the_thief(void) {
    steal_and_run(&rings[1], &rings[2]);
}

/* ---- Promises -------------------------------------------------------------------------------- */

static void each_has_run_once(void) {
    for (int i = 0; i < pushed; i++)
        model_check(runs[i] == 1);
    for (int i = 0; i < RINGS; i++)
        model_check(aw__ring_is_empty(&rings[i]) && rings[i].head >> 32 == rings[i].tail);
}

MODEL(each_task_is_run_once_by_its_owner_or_by_one_of_two_thieves, .setup = setup,
      .threads = {own_three, thief, thief}, .check = each_has_run_once)
MODEL(half_of_a_full_ring_is_spilled_unless_a_thief_makes_space, .setup = setup,
      .threads = {own_six, thief_that_comes_again}, .check = each_has_run_once)
MODEL(a_slot_is_not_reused_while_a_thief_copies, .setup = setup,
      .threads = {own_in_turns, thief_that_comes_again}, .check = each_has_run_once)
MODEL(what_was_stolen_can_be_stolen_again, .setup = setup,
      .threads = {own_three, thief, thief_of_the_thief}, .check = each_has_run_once)

/* An owner without tasks becomes a thief itself, while another thief still copies from its ring. */
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

MODEL(a_thief_does_not_overwrite_slots_that_another_copies, .setup = setup_two_rings,
      .threads = {run_all_then_steal, thief}, .check = all_have_run_once)

/* ---- Checking for tasks ---------------------------------------------------------------------- */

static uint32_t told;

static void setup_told(void) {
    setup();
    told = 0;
}
static void push_tell_and_pop_one(void) {
    push_next(&rings[0], 2);
    aw__store_release(&told, 1u);
    run(aw__ring_pop(&rings[0], &(uint32_t){0}));
}
static void check_not_empty(void) {
    if (aw__load_acquire(&told)) model_check(!aw__ring_is_empty(&rings[0]));
}

MODEL(a_ring_with_a_task_does_not_look_empty, .setup = setup_told,
      .threads = {push_tell_and_pop_one, check_not_empty, check_not_empty})

/* ---- Mistakes -------------------------------------------------------------------------------- */

/* Reads first, and then claims a slot that may have been reused. */
static void thief_without_a_claim(void) {
    uint64_t head = aw__load_acquire(&rings[0].head);
    if (aw__load_acquire(&rings[0].tail) == (uint32_t)head) return;
    aw__task *t = aw__load_relaxed(&rings[0].slots[(uint32_t)head % AW__RING_SIZE]);
    if (aw__cas(&rings[0].head, &head, aw__ring_head((uint32_t)head + 1, (uint32_t)head + 1)))
        run(t);
}
/* Releases the slots with the claim. */
static void thief_that_claims_for_good(void) {
    uint64_t head = aw__load_acquire(&rings[0].head);
    uint32_t real = (uint32_t)head;
    if (aw__load_acquire(&rings[0].tail) == real || real != head >> 32) return;
    if (!aw__cas(&rings[0].head, &head, aw__ring_head(real + 1, real + 1))) return;
    run(aw__load_relaxed(&rings[0].slots[real % AW__RING_SIZE]));
}

MODEL_BROKEN(a_slot_that_is_read_before_it_is_claimed_may_be_reused, "data race", .setup = setup,
             .threads = {own_in_turns, thief_without_a_claim}, .preemptions = 3)
MODEL_BROKEN(a_slot_that_is_released_with_the_claim_may_be_reused, "data race", .setup = setup,
             .threads = {own_in_turns, thief_that_claims_for_good}, .preemptions = 3)

/* ---- Orders ---------------------------------------------------------------------------------- */

/* A task and its slot are passed on by `tail` (release, acquire). A slot returns by `head`: from
 * the exchange that ends a theft (release) to the owner that is about to write (acquire),
 * through any read-modify-writes in between. `real` alone passes on nothing: it says which
 * thread owns a position. */
static const struct model_harmless harmless[] = {
    {"aw__ring_push", "aw__store_seq(", "seq_cst",
     "for the check for sleepers that follows: see idle.c"},
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
     "the slots come with tail; if that is older than head, it finds nothing, or too much"},
    {"aw__ring_steal", "aw__cas(&from->head, &head, aw__ring_head(steal, real + n))", "acquire",
     "the slots come with tail"},
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
    {"aw__ring_is_empty", "aw__load_seq(", "acquire", "the check takes nothing"},
    {"aw__ring_is_empty", "aw__load_seq(", "seq_cst",
     "for the last check before a worker sleeps: see idle.c"},
    {0}};

MODEL_ORDERS(the_orders_of_the_ring, "sched/multi/ring.h", harmless,
             &model_half_of_a_full_ring_is_spilled_unless_a_thief_makes_space,
             &model_a_slot_is_not_reused_while_a_thief_copies,
             &model_what_was_stolen_can_be_stolen_again,
             &model_a_thief_does_not_overwrite_slots_that_another_copies,
             &model_a_ring_with_a_task_does_not_look_empty)
