/* SPDX-License-Identifier: MIT
 *
 * Stacks for fibers. Each thread has a pool of its own, so nothing here is shared or locked: a fiber
 * stays on the thread that first ran it, and its stack comes from there and goes back there.
 *
 * A stack is part of a *group*, one mapping with room for several: guard, stack, guard, stack, ... A
 * guard lies below each stack, where an overflow would go. Sizes are powers of two, each with its own lists:
 * stacks that were used a moment ago (*warm*: their memory is kept, up to a limit) and *cold* ones, which
 * have given theirs back and are only addresses. A group whose stacks are all idle is unmapped when the
 * pool is trimmed: when the thread has had nothing to do for a while, and at the thread's end. */
#ifndef AW_FIBER_STACK_H
#define AW_FIBER_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AW__STACK_MIN_SHIFT = 14, /* 16 KiB: a signal handler with its registers must fit as well */
    AW__STACK_SIZES = 17,     /* up to 1 GiB */
    AW__STACK_DEFAULT = 256 * 1024
};

struct aw__stack_group;

typedef struct aw__stack {
    struct aw__stack *next, *prev; /* among the warm or the cold ones */
    struct aw__stack_group *group;
    char *low, *high; /* the guard ends at low */
    char *top; /* where to begin: not the same place in every page, for the sake of the cache */
    unsigned valgrind_id;
    bool warm;
} aw__stack;

struct aw__stack_list {
    aw__stack *first;
    size_t count;
};

typedef struct aw__stacks {
    struct aw__stack_shelf {
        struct aw__stack_list warm, cold;
        struct aw__stack_group *groups; /* newest first: only that one has stacks never used */
    } shelf[AW__STACK_SIZES];
    size_t used, warm;
    unsigned ends;      /* how often the thread's end has come by */
    uint64_t trim_at;   /* by the clock of who asks: see aw__stacks_idle; 0: not set */
    void *signal_stack; /* see overflow.h */
    int *error;         /* where this thread has its errno: to ask each time is a call */
    const struct aw_allocator *allocator;
} aw__stacks;

/* How many bytes below a stack are guarded. */
size_t aw__stack_guard(void);

/* The pool of this thread; NULL before its first fiber. */
extern _Thread_local aw__stacks *aw__stacks_here __attribute__((tls_model("initial-exec")));

/* The pool of this thread, made when there is none; NULL without memory. */
aw__stacks *aw__stacks_get(void);

/* A stack of at least this size; NULL without memory, and for sizes beyond reason. By its thread. */
aw__stack *aw__stack_take(aw__stacks *pool, size_t size);
void aw__stack_give(aw__stacks *pool, aw__stack *stack);

/* Give back all memory that is not in use, the pool itself included. */
void aw__stacks_trim(aw__stacks *pool);

/* The thread is about to sleep. Returns when, by the clock that it gives, it should look here again; the
 * pool is trimmed after a second in which nothing was used. */
uint64_t aw__stacks_idle(uint64_t now);

#endif
