/* SPDX-License-Identifier: MIT */
#include "fiber/stack.h"

#include <awake/fiber.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/alloc.h"
#include "core/atomic.h"
#include "fiber/annotate.h"
#include "fiber/overflow.h"
#include "os/map.h"

struct aw__stack_group {
    struct aw__stack_group *next;
    const aw_allocator *allocator;
    char *memory;
    size_t stack_size;
    unsigned shelf; /* on which it is */
    unsigned count, fresh,
        idle; /* stacks; the first that was never used; how many of the others are */
    aw__stack stacks[];
};

enum {
    GROUP_MAX = 64,
    WARM_MAX = 256,
    WARM_BYTES = 64 * 1024 * 1024, /* if each had been used to its end */
    IDLE_NS = 1000000000
};

_Thread_local aw__stacks *aw__stacks_here;

/* ---- Lists ------------------------------------------------------------------------------------ */

static void push(struct aw__stack_list *list, aw__stack *s) {
    s->prev = NULL;
    s->next = list->first;
    if (s->next) s->next->prev = s;
    list->first = s;
    list->count++;
}

static void unlink_stack(struct aw__stack_list *list, aw__stack *s) {
    if (s->prev)
        s->prev->next = s->next;
    else
        list->first = s->next;
    if (s->next) s->next->prev = s->prev;
    list->count--;
}

/* Larger than what a function without probes may skip. And an odd number of pages, so that the distance
 * from one stack to the next is odd too: the processor sorts translations by the low bits of the page
 * number, and with a round distance those of all stacks would fall into a few of its sets. */
size_t aw__stack_guard(void) {
    return 64 * 1024 + aw__page_size();
}

static size_t shelf_of(size_t size) {
    if (size <= (size_t)1 << AW__STACK_MIN_SHIFT) return 0;
    size_t bits = sizeof(long) * 8 - (size_t)__builtin_clzl(size - 1); /* of the power of two */
    return bits > AW__STACK_MIN_SHIFT + AW__STACK_SIZES - 1 ? AW__STACK_SIZES
                                                            : bits - AW__STACK_MIN_SHIFT;
}

/* ---- Groups ----------------------------------------------------------------------------------- */

static size_t group_bytes(const struct aw__stack_group *g) {
    return g->count * (g->stack_size + aw__stack_guard());
}

static struct aw__stack_group *group_new(unsigned shelf, unsigned count) {
    size_t stack_size = (size_t)1 << (AW__STACK_MIN_SHIFT + shelf);
    const aw_allocator *a = aw_get_allocator();
    size_t size = sizeof(struct aw__stack_group) + count * sizeof(aw__stack);
    /* It does happen where pointers are short. */
    if (stack_size + aw__stack_guard() > SIZE_MAX / count) return NULL;
    struct aw__stack_group *g = aw__alloc(a, size);
    if (!g) return NULL;
    memset(g, 0, size);
    g->allocator = a;
    g->stack_size = stack_size;
    g->shelf = shelf;
    g->count = count;
    g->memory = aw__map(group_bytes(g));
    if (!g->memory) {
        aw__release(a, g, size);
        return NULL;
    }
    return g;
}

static void group_free(struct aw__stack_group *g) {
#if defined(AW__ASAN)
    for (unsigned i = 0; i < g->fresh; i++)
        __lsan_unregister_root_region(g->stacks[i].low, g->stack_size);
#endif
#if defined(AW_VALGRIND)
    for (unsigned i = 0; i < g->fresh; i++)
        VALGRIND_STACK_DEREGISTER(g->stacks[i].valgrind_id);
#endif
    aw__unmap(g->memory, group_bytes(g));
    aw__release(g->allocator, g, sizeof *g + g->count * sizeof(aw__stack));
}

/* A stack of the group that was never used; NULL when there is none, or no guard for it. */
static aw__stack *group_take(struct aw__stack_group *g) {
    if (g->fresh == g->count) return NULL;
    aw__stack *s = &g->stacks[g->fresh];
    char *guard = g->memory + g->fresh * (g->stack_size + aw__stack_guard());
    if (!aw__map_guard(guard, aw__stack_guard())) return NULL;
    g->fresh++;
    s->group = g;
    s->low = guard + aw__stack_guard();
    s->high = s->low + g->stack_size;
    s->top = s->high - g->fresh % 16 * 128;
#if defined(AW__ASAN)
    __lsan_register_root_region(s->low, g->stack_size); /* what only a waiting fiber points to */
#endif
#if defined(AW_VALGRIND)
    s->valgrind_id = VALGRIND_STACK_REGISTER(s->low, s->high);
#endif
    return s;
}

/* Each group is twice as large as the one before: a program with two fibers maps little, one with a
 * hundred thousand maps rarely. */
static aw__stack *grow(struct aw__stack_shelf *shelf, unsigned i) {
    struct aw__stack_group *last = shelf->groups;
    unsigned count = !last ? 4 : last->count < GROUP_MAX ? last->count * 2 : GROUP_MAX;
    struct aw__stack_group *g = group_new(i, count);
    if (!g) g = group_new(i, 1);
    if (!g) return NULL;
    aw__stack *s = group_take(g);
    if (!s) {
        group_free(g);
        return NULL;
    }
    g->next = shelf->groups;
    shelf->groups = g;
    return s;
}

/* ---- The pool --------------------------------------------------------------------------------- */

aw__stack *aw__stack_take(aw__stacks *pool, size_t size) {
    size_t i = shelf_of(size > aw__page_size() ? size : aw__page_size());
    if (i == AW__STACK_SIZES) return NULL;
    struct aw__stack_shelf *shelf = &pool->shelf[i];
    aw__stack *s;
    if ((s = shelf->warm.first)) {
        unlink_stack(&shelf->warm, s);
        pool->warm--;
    } else if ((s = shelf->cold.first)) {
        unlink_stack(&shelf->cold, s);
    } else {
        s = shelf->groups ? group_take(shelf->groups) : NULL;
        if (!s) s = grow(shelf, (unsigned)i);
        if (!s) return NULL;
        s->group->idle++;
    }
    s->group->idle--;
    pool->used++;
    return s;
}

static void make_cold(struct aw__stack_shelf *shelf, aw__stack *s) {
    s->warm = false;
    aw__map_clear(s->low, s->group->stack_size);
    push(&shelf->cold, s);
}

void aw__stack_give(aw__stacks *pool, aw__stack *s) {
    struct aw__stack_shelf *shelf = &pool->shelf[s->group->shelf];
    size_t limit = WARM_BYTES >> (AW__STACK_MIN_SHIFT + s->group->shelf);
    s->group->idle++;
    if (shelf->warm.count < (limit < WARM_MAX ? limit : WARM_MAX)) {
        s->warm = true;
        push(&shelf->warm, s);
        pool->warm++;
    } else {
        make_cold(shelf, s);
    }
    pool->trim_at = 0;
    pool->used--;
}

static pthread_key_t key;
static int key_error;

static void pool_free(aw__stacks *pool) {
    aw__overflow_thread_ends(pool);
    pthread_setspecific(key, NULL);
    aw__stacks_here = NULL;
    aw__release(pool->allocator, pool, sizeof *pool);
}

void aw__stacks_trim(aw__stacks *pool) {
    for (size_t i = 0; i < AW__STACK_SIZES; i++) {
        struct aw__stack_shelf *shelf = &pool->shelf[i];
        struct aw__stack_group **at = &shelf->groups, *g;
        while ((g = *at)) {
            if (g->idle < g->fresh) {
                at = &g->next;
                continue;
            }
            for (unsigned n = 0; n < g->fresh; n++) {
                aw__stack *s = &g->stacks[n];
                if (s->warm) pool->warm--;
                unlink_stack(s->warm ? &shelf->warm : &shelf->cold, s);
            }
            *at = g->next;
            group_free(g);
        }
        while (shelf->warm.first) {
            aw__stack *s = shelf->warm.first;
            unlink_stack(&shelf->warm, s);
            pool->warm--;
            make_cold(shelf, s);
        }
    }
    pool->trim_at = 0;
    if (!pool->used) pool_free(pool);
}

uint64_t aw__stacks_idle(uint64_t now) {
    aw__stacks *pool = aw__stacks_here;
    if (!pool || !pool->warm) return UINT64_MAX;
    if (!pool->trim_at) pool->trim_at = now + IDLE_NS;
    if (now < pool->trim_at) return pool->trim_at;
    aw__stacks_trim(pool);
    return UINT64_MAX;
}

/* ---- One for each thread ---------------------------------------------------------------------- */

/* Another destructor of the thread may come later and end the fibers that are left: ask to be called
 * again, but not for ever (the last round of four is when TSan leaves the thread). One that is left behind
 * can never run again, and what it borrows must stay: such a pool is left alive. */
static void thread_ends(void *arg) {
    aw__stacks *pool = arg;
    if (pool->used && pool->ends++ < 2) pthread_setspecific(key, pool);
    aw__stacks_trim(pool);
}

static void make_key(void) {
    key_error = pthread_key_create(&key, thread_ends);
}

aw__stacks *aw__stacks_get(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (aw__stacks_here) return aw__stacks_here;
    pthread_once(&once, make_key);
    if (key_error) return NULL;
    const aw_allocator *a = aw_get_allocator();
    aw__stacks *pool = aw__alloc(a, sizeof *pool);
    if (!pool) return NULL;
    memset(pool, 0, sizeof *pool);
    pool->allocator = a;
    pool->error = &errno;
    if (pthread_setspecific(key, pool)) {
        aw__release(a, pool, sizeof *pool);
        return NULL;
    }
    aw__stacks_here = pool;
    aw__overflow_thread_begins(pool);
    return pool;
}

void aw_stacks_trim(void) {
    if (aw__stacks_here) aw__stacks_trim(aw__stacks_here);
}
