/* SPDX-License-Identifier: MIT
 *
 * Stacks for fibers. Each thread has its own pool, so nothing here is shared or locked: a fiber
 * stays on the thread that first ran it, and its stack is allocated from and returned to the pool
 * of that thread.
 *
 * A stack is part of a *group*, which is one mapping: guard, stack, guard, stack, ... The guard
 * lies below its stack, where an overflow goes. Sizes are powers of two, each with its own lists.
 * *Warm* stacks were used recently and keep their memory, up to a limit. *Cold* stacks have
 * released theirs and are only address space.
 *
 * Trimming a pool unmaps the groups in which all stacks are idle, and makes the other idle stacks
 * cold. It happens when the thread has been idle for a while, and when it ends. */
#ifndef AW_FIBER_STACK_H
#define AW_FIBER_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AW__STACK_MIN_SHIFT = 14, /* 16 KiB: a signal frame with all registers must fit, too */
    AW__STACK_SIZES = 17,     /* up to 1 GiB */
    AW__STACK_DEFAULT = 256 * 1024
};

struct aw__stack_group;

typedef struct aw__stack {
    struct aw__stack *next, *prev; /* in the warm or the cold list */
    struct aw__stack_group *group;
    char *low, *high; /* the guard ends at low */
    /* Where the fiber begins. The offset in its page varies, to spread stacks over cache sets. */
    char *top;
    unsigned valgrind_id;
    bool warm;
} aw__stack;

struct aw__stack_list {
    aw__stack *first;
    size_t count;
};

typedef struct aw__stacks {
    struct aw__stack_class {
        struct aw__stack_list warm, cold;
        struct aw__stack_group *groups; /* newest first; only the newest has fresh stacks */
    } classes[AW__STACK_SIZES];
    size_t used, warm;    /* stacks of all sizes */
    unsigned exit_rounds; /* how often the destructor has run */
    uint64_t trim_at;     /* when to trim, by the clock of aw__stacks_idle; 0: not set */
    void *signal_stack;   /* see overflow.h */
    int *error;           /* &errno of this thread, cached: each use of errno is a call */
    const struct aw_allocator *allocator;
} aw__stacks;

/* The size of the guard below each stack. */
size_t aw__stack_guard(void);

/* The pool of this thread; NULL before its first fiber. */
extern _Thread_local aw__stacks *aw__stacks_of_thread __attribute__((tls_model("initial-exec")));

/* The pool of this thread, created if there is none; NULL: no memory. */
aw__stacks *aw__stacks_get(void);

/* A stack of at least this size; NULL: no memory, or larger than 1 GiB. By the thread of the
 * pool. */
aw__stack *aw__stack_alloc(aw__stacks *pool, size_t size);
void aw__stack_free(aw__stacks *pool, aw__stack *stack);

/* Releases all memory that is not in use. Without stacks in use, that includes the pool itself. */
void aw__stacks_trim(aw__stacks *pool);

/* Called when the thread is about to sleep. Trims the pool after a second without use. Returns when
 * to call again, by the clock of `now`; UINT64_MAX: not needed. */
uint64_t aw__stacks_idle(uint64_t now);

#endif
