/* SPDX-License-Identifier: MIT
 *
 * Stacks for fibers: see stack.h. Used only by the thread that owns the pool. */
#include "fiber/stack.h"

#include <awake/fiber.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/allocate.h"
#include "base/atomic.h"
#include "base/list.h"
#include "fiber/annotate.h"
#include "fiber/overflow.h"
#include "os/map.h"

struct aw__stack_group {
    struct aw__stack_group *next;
    const aw_allocator *allocator;
    char *memory;
    size_t stack_size;
    unsigned size_class;
    unsigned count; /* stacks in it */
    unsigned fresh; /* the first that was never used */
    unsigned idle;  /* used before, but not now */
    aw__stack stacks[];
};

enum {
    GROUP_MAX = 64,                /* stacks in a group */
    WARM_MAX = 256,                /* warm stacks of a size */
    WARM_BYTES = 64 * 1024 * 1024, /* of those, if each was used completely */
    IDLE_NS = 1000000000           /* until the pool of an idle thread is trimmed */
};

_Thread_local aw__stacks *aw__stacks_of_thread;

/* ---- Lists ----------------------------------------------------------------------------------- */

static void stack_list_push(struct aw__stack_list *list, aw__stack *s) {
    aw__list_insert_head(&list->first, s);
    list->count++;
}

static void stack_list_remove(struct aw__stack_list *list, aw__stack *s) {
    aw__list_remove(&list->first, s);
    list->count--;
}

/* Larger than the frame that a function without stack probes may skip. Also an odd number of pages,
 * so that the distance between two stacks is odd: the TLB is indexed by the low bits of the page
 * number, and at a round distance all stacks would share a few of its sets. */
size_t aw__stack_guard(void) {
    return 64 * 1024 + aw__page_size();
}

/* AW__STACK_SIZES: larger than the largest. */
static size_t size_class_of(size_t size) {
    if (size <= (size_t)1 << AW__STACK_MIN_SHIFT) return 0;
    size_t bits = sizeof(long) * 8 - (size_t)__builtin_clzl(size - 1); /* of the size, rounded up */
    return bits > AW__STACK_MIN_SHIFT + AW__STACK_SIZES - 1 ? AW__STACK_SIZES
                                                            : bits - AW__STACK_MIN_SHIFT;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static size_t group_bytes(const struct aw__stack_group *g) {
    return g->count * (g->stack_size + aw__stack_guard());
}

static struct aw__stack_group *group_new(unsigned size_class, unsigned count) {
    size_t stack_size = (size_t)1 << (AW__STACK_MIN_SHIFT + size_class);
    const aw_allocator *a = aw_get_allocator();
    size_t size = sizeof(struct aw__stack_group) + count * sizeof(aw__stack);
    /* Possible with 32-bit pointers. */
    if (stack_size + aw__stack_guard() > SIZE_MAX / count) return NULL;
    struct aw__stack_group *g = aw__alloc(a, size);
    if (!g) return NULL;
    memset(g, 0, size);
    g->allocator = a;
    g->stack_size = stack_size;
    g->size_class = size_class;
    g->count = count;
    g->memory = aw__map(group_bytes(g));
    if (!g->memory) {
        aw__free(a, g, size);
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
    aw__free(g->allocator, g, sizeof *g + g->count * sizeof(aw__stack));
}

/* A stack of the group that was never used; NULL if there is none, or the kernel refuses its
 * guard. */
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
    /* For memory that only a suspended fiber points to. */
    __lsan_register_root_region(s->low, g->stack_size);
#endif
#if defined(AW_VALGRIND)
    s->valgrind_id = VALGRIND_STACK_REGISTER(s->low, s->high);
#endif
    return s;
}

/* Each group is twice as large as the one before, up to GROUP_MAX: a program with two fibers maps
 * little memory, and one with a hundred thousand fibers maps rarely. */
static aw__stack *stack_grow(struct aw__stack_class *class, unsigned i) {
    struct aw__stack_group *last = class->groups;
    unsigned count = !last ? 4 : last->count < GROUP_MAX ? last->count * 2 : GROUP_MAX;
    struct aw__stack_group *g = group_new(i, count);
    if (!g) g = group_new(i, 1);
    if (!g) return NULL;
    aw__stack *s = group_take(g);
    if (!s) {
        group_free(g);
        return NULL;
    }
    g->next = class->groups;
    class->groups = g;
    return s;
}

/* ---- The pool -------------------------------------------------------------------------------- */

aw__stack *aw__stack_alloc(aw__stacks *pool, size_t size) {
    size_t i = size_class_of(size > aw__page_size() ? size : aw__page_size());
    if (i == AW__STACK_SIZES) return NULL;
    struct aw__stack_class *class = &pool->classes[i];
    aw__stack *s;
    if ((s = class->warm.first)) {
        stack_list_remove(&class->warm, s);
        pool->warm--;
    } else if ((s = class->cold.first)) {
        stack_list_remove(&class->cold, s);
    } else {
        s = class->groups ? group_take(class->groups) : NULL;
        if (!s) s = stack_grow(class, (unsigned)i);
        if (!s) return NULL;
        s->group->idle++;
    }
    s->group->idle--;
    pool->used++;
    return s;
}

static void stack_make_cold(struct aw__stack_class *class, aw__stack *s) {
    s->warm = false;
    aw__map_clear(s->low, s->group->stack_size);
    stack_list_push(&class->cold, s);
}

void aw__stack_free(aw__stacks *pool, aw__stack *s) {
    struct aw__stack_class *class = &pool->classes[s->group->size_class];
    size_t limit = WARM_BYTES >> (AW__STACK_MIN_SHIFT + s->group->size_class);
    s->group->idle++;
    if (class->warm.count < (limit < WARM_MAX ? limit : WARM_MAX)) {
        s->warm = true;
        stack_list_push(&class->warm, s);
        pool->warm++;
    } else {
        stack_make_cold(class, s);
    }
    pool->trim_at = 0;
    pool->used--;
}

static pthread_key_t key;
static int key_error;

static void pool_free(aw__stacks *pool) {
    aw__overflow_thread_ends(pool);
    pthread_setspecific(key, NULL);
    aw__stacks_of_thread = NULL;
    aw__free(pool->allocator, pool, sizeof *pool);
}

void aw__stacks_trim(aw__stacks *pool) {
    for (size_t i = 0; i < AW__STACK_SIZES; i++) {
        struct aw__stack_class *class = &pool->classes[i];
        struct aw__stack_group **at = &class->groups, *g;
        while ((g = *at)) {
            if (g->idle < g->fresh) {
                at = &g->next;
                continue;
            }
            for (unsigned n = 0; n < g->fresh; n++) {
                aw__stack *s = &g->stacks[n];
                if (s->warm) pool->warm--;
                stack_list_remove(s->warm ? &class->warm : &class->cold, s);
            }
            *at = g->next;
            group_free(g);
        }
        while (class->warm.first) {
            aw__stack *s = class->warm.first;
            stack_list_remove(&class->warm, s);
            pool->warm--;
            stack_make_cold(class, s);
        }
    }
    pool->trim_at = 0;
    if (!pool->used) pool_free(pool);
}

uint64_t aw__stacks_idle(uint64_t now) {
    aw__stacks *pool = aw__stacks_of_thread;
    if (!pool || !pool->warm) return UINT64_MAX;
    if (!pool->trim_at) pool->trim_at = now + IDLE_NS;
    if (now < pool->trim_at) return pool->trim_at;
    aw__stacks_trim(pool);
    return UINT64_MAX;
}

/* ---- The pool of a thread -------------------------------------------------------------------- */

/* The destructor of the thread's pool. A later destructor may still end fibers: so while stacks are
 * in use, this one asks to be called again, twice at most (in the last of the four rounds TSan
 * leaves the thread). A fiber that remains after that can never run again, but other code may still
 * point into its stack: its pool is not freed. */
static void stacks_thread_exit(void *arg) {
    aw__stacks *pool = arg;
    if (pool->used && pool->exit_rounds++ < 2) pthread_setspecific(key, pool);
    aw__stacks_trim(pool);
}

static void create_key(void) {
    key_error = pthread_key_create(&key, stacks_thread_exit);
}

aw__stacks *aw__stacks_get(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (aw__stacks_of_thread) return aw__stacks_of_thread;
    pthread_once(&once, create_key);
    if (key_error) return NULL;
    const aw_allocator *a = aw_get_allocator();
    aw__stacks *pool = aw__alloc(a, sizeof *pool);
    if (!pool) return NULL;
    memset(pool, 0, sizeof *pool);
    pool->allocator = a;
    pool->error = &errno;
    if (pthread_setspecific(key, pool)) {
        aw__free(a, pool, sizeof *pool);
        return NULL;
    }
    aw__stacks_of_thread = pool;
    aw__overflow_thread_begins(pool);
    return pool;
}

void aw_stacks_trim(void) {
    if (aw__stacks_of_thread) aw__stacks_trim(aw__stacks_of_thread);
}
