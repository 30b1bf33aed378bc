/* SPDX-License-Identifier: MIT
 *
 * The model checker on a stack of linked nodes: correct if all nodes are taken at once, and
 * wrong in the known ways if nodes are taken one by one. */
#include "support/model.h"

struct node {
    struct node *next;
    int value;
};

static struct node *top, *nodes[3];
static int taken[4];

static void setup(void) {
    top = NULL;
    memset(taken, 0, sizeof taken);
}

static void push(struct node *n) {
    n->next = aw__load_relaxed(&top);
    while (!aw__cas(&top, &n->next, n))
        ;
}

static void push_new(int value) {
    struct node *n = model_alloc(sizeof *n);
    model_write(&n->value, value);
    push(n);
}

static void count(struct node *n) {
    taken[model_read(&n->value)]++;
    model_free(n);
}

/* ---- All at once ----------------------------------------------------------------------------- */

static void push_one(void) {
    push_new(model_self());
}
static void push_another(void) {
    push_new(model_self());
    push_new(2);
}
static void take_all(void) {
    for (int i = 0; i < 2; i++)
        for (struct node *n = aw__exchange(&top, (struct node *)NULL), *next; n; n = next) {
            next = model_read(&n->next);
            count(n);
        }
}
static void each_once(void) {
    for (struct node *n = top, *next; n; n = next) {
        next = n->next;
        count(n);
    }
    for (int i = 0; i < 3; i++)
        model_check(taken[i] == 1);
    model_check(model_allocated() == 0);
}

MODEL(taking_all_nodes_gets_each_once, .setup = setup,
      .threads = {push_one, push_another, take_all}, .check = each_once)

/* The cas need not acquire: the next of a node is read only after the exchange. */
static const struct model_harmless harmless[] = {
    {"push", "aw__cas(", "acquire", "what it is pushed onto is not read"},
    {"push", "aw__cas(", "failure", "what it is pushed onto is not read"},
    {"take_all", "aw__exchange(", "release", "NULL passes on nothing"},
    {0}};

MODEL_ORDERS(the_orders_of_a_stack_that_is_taken_at_once, "model/treiber.c", harmless,
             &model_taking_all_nodes_gets_each_once)

/* ---- One by one ------------------------------------------------------------------------------ */

/* Other threads may read the next of a node that is no longer in the stack, so it is atomic
 * here. */
static struct node *pop(void) {
    struct node *n = aw__load_acquire(&top);
    while (n && !aw__cas(&top, &n, aw__load_relaxed(&n->next)))
        ;
    return n;
}
static void push_again(struct node *n) {
    struct node *old = aw__load_relaxed(&top);
    do
        aw__store_relaxed(&n->next, old);
    while (!aw__cas(&top, &old, n));
}

static void setup_two(void) {
    setup();
    for (int i = 0; i < 2; i++) {
        nodes[i] = model_alloc(sizeof *nodes[i]);
        nodes[i]->value = i;
        nodes[i]->next = top;
        top = nodes[i];
    }
}
static void pop_and_free(void) {
    struct node *n = pop();
    if (n) count(n);
}
static void pop_and_keep(void) {
    struct node *n = pop();
    if (n) taken[model_read(&n->value)]++;
}
/* Two out, the first one in again: to a thread inside its pop the stack looks unchanged. */
static void pop_two_push_one(void) {
    struct node *first = pop(), *second = pop();
    if (second) taken[model_read(&second->value)]++;
    if (first) push_again(first);
}
static void none_twice(void) {
    for (struct node *n = top; n; n = n->next)
        taken[n->value]++;
    for (int i = 0; i < 2; i++)
        model_check(taken[i] == 1);
}

MODEL_BROKEN(a_node_is_freed_while_another_thread_looks_at_it, "free", .setup = setup_two,
             .threads = {pop_and_free, pop_and_free})
MODEL(nodes_that_are_kept_are_popped_once, .setup = setup_two,
      .threads = {pop_and_keep, pop_and_keep}, .check = none_twice)
MODEL_BROKEN(a_node_that_came_back_is_taken_for_the_old_one, "taken[i] == 1", .setup = setup_two,
             .threads = {pop_and_keep, pop_two_push_one}, .check = none_twice)
