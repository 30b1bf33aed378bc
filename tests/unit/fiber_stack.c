/* SPDX-License-Identifier: MIT
 *
 * Stacks of fibers: sizes, reuse, guards, and when their memory is freed. */
/* link: -Wl,--wrap=mmap -Wl,--wrap=munmap -Wl,--wrap=madvise -Wl,--wrap=mprotect */
#include <awake.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/by_hand.h"
#include "support/use_stack.h"
#include "support/mappings.h"

ALL_ON_THIS_THREAD("it looks at the stacks of the thread that runs the fibers");

enum { PAGE = 4096 }; /* the smallest page size */

/* The range of a stack, copied by its fiber. */
struct range {
    aw__stack *stack;
    char *low, *high;
};

static struct range current_range(void) {
    aw__stack *s = aw__fiber_current->stack;
    const char *frame = __builtin_frame_address(0);
    CHECK(frame > s->low && frame < s->high);
    return (struct range){s, s->low, s->high};
}

AW_FIBER(int, looks, struct range *range;) {
    *self->range = current_range();
    return 0;
}

static struct range range_of_next(void) {
    struct range p;
    CHECK_EQ(aw_run(AW_CALL(looks, .range = &p)), 0);
    return p;
}

/* Touches its stack, and lives until `end` is notified. */
AW_FIBER(int, stays, struct range *range; aw_notify * end; size_t deep;) {
    if (self->range) *self->range = current_range();
    if (self->deep) use_stack(self->deep);
    return self->end ? aw_await(aw_notify_wait(self->end)) : 0;
}

/* ---- Reuse ----------------------------------------------------------------------------------- */

TEST(the_next_fiber_gets_the_same_stack) {
    struct range a, b;
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(looks, .range = &a)), 0);
    long mapped = mappings.bytes;
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(aw_block_on(rt, AW_CALL(looks, .range = &b)), 0);
        CHECK_EQ(a.low, b.low);
    }
    CHECK_EQ(mappings.bytes, mapped);
    aw_runtime_free(rt);
}

TEST(stacks_are_the_threads_and_outlive_a_runtime) {
    struct range a = range_of_next(), b = range_of_next();
    CHECK_EQ(a.low, b.low);
}

static void *look_on_a_thread(void *range) {
    *(struct range *)range = range_of_next();
    return NULL;
}

TEST(threads_do_not_share_stacks) {
    struct range a = range_of_next(), b;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, look_on_a_thread, &b), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(a.low != b.low);
    CHECK_EQ(range_of_next().low, a.low);
}

enum { SOME = 40 };
static struct range ranges[20000];
static struct stays *tasks[20000];
static aw_notify end;

/* Runs `check` while `count` fibers are alive. */
AW_FIBER(int, crowd, int count; uint32_t size; size_t deep; void (*check)(int count);) {
    for (int i = 0; i < self->count; i++)
        tasks[i] = aw_spawn(AW_CALL(stays, .range = &ranges[i], .end = &end, .deep = self->deep,
                                    .stack_size = self->size));
    CHECK_EQ(aw_fiber_yield(), 0);
    CHECK_EQ(aw_fiber_yield(), 0);
    if (self->check) self->check(self->count);
    aw_notify_waiters(&end);
    for (int i = 0; i < self->count; i++) {
        CHECK_EQ(aw_await(aw_task_join(tasks[i])), 0);
        CHECK_EQ(aw_task_take(tasks[i]), 0);
    }
    return 0;
}

static int by_address(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

static void check_guards(int count) {
    size_t guard = aw__stack_guard();
    CHECK_GT(guard, 65536);
    CHECK(is_out_of_bounds(current_range().low - 1)); /* the first stack that was made */
    qsort(ranges, (size_t)count, sizeof ranges[0], by_address);
    for (int i = 0; i < count; i++) {
        CHECK(i == 0 || ranges[i].low - ranges[i - 1].high >= (long)guard);
        CHECK(is_out_of_bounds(ranges[i].low - 1));
        CHECK(is_out_of_bounds(ranges[i].low - PAGE));
        CHECK(is_out_of_bounds(ranges[i].low - guard));
        CHECK(!is_out_of_bounds(ranges[i].low));
        CHECK(!is_out_of_bounds(ranges[i].high - 1));
    }
}

TEST(each_living_fiber_has_a_stack_of_its_own_with_a_guard_below) {
    CHECK_EQ(aw_run(AW_CALL(crowd, .count = SOME, .check = check_guards)), 0);
    CHECK_EQ(aw_run(AW_CALL(crowd, .count = SOME, .size = 1, .check = check_guards)), 0);
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static size_t size_for(uint32_t runtime, uint32_t call) {
    struct range p;
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.stack_size = runtime;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(looks, .range = &p, .stack_size = call)), 0);
    aw_runtime_free(rt);
    return (size_t)(p.high - p.low);
}

TEST(sizes_are_rounded_up_to_a_power_of_two) {
    size_t min_size = sysconf(_SC_PAGESIZE) > 16384 ? (size_t)sysconf(_SC_PAGESIZE) : 16384;
    CHECK_EQ(size_for(0, 0), 256 * 1024);
    CHECK_EQ(size_for(0, 1), min_size);
    CHECK_EQ(size_for(0, 16384), min_size);
    CHECK_EQ(size_for(0, 65536), 65536);
    CHECK_EQ(size_for(0, 65537), 131072);
    CHECK_EQ(size_for(0, 3000000), 4 * 1024 * 1024);
}

TEST(a_runtime_has_a_default_and_a_call_overrides_it) {
    CHECK_EQ(size_for(65536, 0), 65536);
    CHECK_EQ(size_for(100000, 0), 131072);
    CHECK_EQ(size_for(65536, 131072), 131072);
    CHECK_EQ(size_for(1024 * 1024, 65536), 65536);
}

TEST(the_default_holds_for_many_in_one_await) {
    enum { MANY = 40 };
    struct range p[MANY];
    struct looks many[MANY];
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.stack_size = 65536;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    for (int i = 0; i < MANY; i++)
        many[i] = AW_CALL(looks, .range = &p[i]);
    CHECK_EQ(aw_block_on(rt, aw_join_all(many, MANY)), 0);
    aw_runtime_free(rt);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(p[i].high - p[i].low, 65536);
}

static int plain_size(void *unused) {
    (void)unused;
    struct range p = current_range();
    return (int)(p.high - p.low);
}

TEST(a_plain_function_may_ask_for_a_size) {
    CHECK_EQ(aw_run(aw_fiber_with(plain_size, NULL, NULL, 65536)), 65536);
    CHECK_EQ(aw_run(aw_fiber_of(plain_size, NULL)), 256 * 1024);
}

/* A stack is only reused for fibers that need its size. */
TEST(sizes_do_not_mix) {
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t wanted = 65536u << i % 4;
        CHECK_EQ(size_for(0, wanted), wanted);
    }
}

TEST(a_size_beyond_reason_is_no_memory) {
    struct range p = {NULL, NULL, NULL};
    const uint32_t wanted[] = {UINT32_MAX, (1u << 31), (1u << 30) + 1};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        CHECK_EQ(aw_run(AW_CALL(looks, .range = &p, .stack_size = wanted[i])), -ENOMEM);
        CHECK(p.low == NULL); /* the body did not run */
        aw_stacks_trim();
        CHECK_EQ(mappings.bytes, 0);
        aw_runtime_options options = AW_RUNTIME_OPTIONS;
        aw_runtime *rt;
        options.stack_size = wanted[i];
        CHECK_EQ(aw_runtime_new(&rt, &options), 0);
        CHECK_EQ(aw_block_on(rt, AW_CALL(looks, .range = &p)), -ENOMEM);
        CHECK_EQ(aw_block_on(rt, AW_CALL(looks, .range = &p, .stack_size = 65536)), 0);
        aw_runtime_free(rt);
        aw_stacks_trim();
        p.low = NULL;
    }
    CHECK_EQ(range_of_next().high - range_of_next().low, 256 * 1024);
}

TEST(a_huge_stack_costs_only_what_is_used) {
    if (test_under_valgrind()) SKIP("it keeps a shadow of all addresses");
    struct range p;
    int r = aw_run(AW_CALL(stays, .range = &p, .deep = 1024 * 1024, .stack_size = 512u << 20));
    if (r == -ENOMEM && test_under_sanitizer()) SKIP("so much address space is not free here");
    CHECK_EQ(r, 0);
    CHECK_EQ(p.high - p.low, 512 << 20);
    /* Above the limit for idle stacks: freed at once. */
    CHECK_EQ(pages_in_memory(p.high - (1 << 20), p.high), 0);
}

/* ---- Freeing --------------------------------------------------------------------------------- */

static long resident(struct range p) {
    return pages_in_memory(p.low, p.high);
}

TEST(an_idle_stack_keeps_its_memory_until_it_is_trimmed) {
    struct range p;
    CHECK_EQ(aw_run(AW_CALL(stays, .range = &p, .deep = 100000)), 0);
    CHECK_GE(resident(p), 100000 / sysconf(_SC_PAGESIZE));
    aw_stacks_trim();
    CHECK_EQ(mappings.bytes, 0);
    CHECK_EQ(resident(p), -1);
    aw_stacks_trim(); /* a second time, with no stacks */
    CHECK_EQ(aw_run(AW_CALL(stays, .range = &p, .deep = 100000)), 0);
    CHECK_GT(mappings.bytes, 0);
    aw_stacks_trim();
    CHECK_EQ(mappings.bytes, 0);
}

AW_FIBER(int, trims_inside) {
    struct range mine = current_range(), other;
    unsigned char pattern[5000];
    memset(pattern, 0x5e, sizeof pattern);
    struct stays *task = aw_spawn(AW_CALL(stays, .range = &other, .deep = 100000));
    CHECK_EQ(aw_await(aw_task_join(task)), 0);
    aw_task_drop(task);
    CHECK_EQ(other.stack->group, mine.stack->group);
    CHECK_GE(resident(other), 100000 / sysconf(_SC_PAGESIZE));
    aw_stacks_trim();
    /* The group is in use, so the addresses stay mapped. */
    CHECK_EQ(resident(other), 0);
    CHECK_GT(resident(mine), 0);
    CHECK(is_out_of_bounds(other.low - 1));
    for (size_t i = 0; i < sizeof pattern; i++)
        CHECK_EQ(pattern[i], 0x5e);
    /* It can be used as before. */
    struct range again;
    task = aw_spawn(AW_CALL(stays, .range = &again, .deep = 100000));
    CHECK_EQ(aw_await(aw_task_join(task)), 0);
    aw_task_drop(task);
    CHECK_EQ(again.low, other.low);
    return 0;
}

TEST(trimming_spares_the_fibers_that_live) {
    CHECK_EQ(aw_run(AW_CALL(trims_inside)), 0);
    aw_stacks_trim();
    CHECK_EQ(mappings.bytes, 0);
}

/* At most 256 stacks are kept, and at most 64 MiB if they were full. */
static void check_warm(int count, uint32_t size, int limit) {
    int kept = 0;
    CHECK_EQ(aw_run(AW_CALL(crowd, .count = count, .size = size, .deep = 20000)), 0);
    for (int i = 0; i < count; i++)
        kept += resident(ranges[i]) > 0;
    CHECK_LE(kept, limit);
    CHECK_GE(kept, limit - 1); /* the crowd's own stack counts, too */
    aw_stacks_trim();
    CHECK_EQ(mappings.bytes, 0);
}

TEST(memory_of_more_than_a_few_hundred_idle_stacks_is_freed_at_once) {
    check_warm(400, 0, 256);
    check_warm(400, 65536, 256);
}

TEST(memory_of_large_idle_stacks_is_freed_sooner) {
    check_warm(100, 1 << 20, 64);
}

/* The clock of the runtime only advances by its sleeps. */
struct world {
    aw_seam seam;
    uint64_t now;
};

static uint64_t world_now(void *data) {
    return ((struct world *)data)->now;
}
static void world_park(void *data, uint64_t deadline) {
    CHECK(deadline != AW_FOREVER);
    ((struct world *)data)->now = deadline;
}
static void world_unpark(void *data) {
    (void)data;
}

AW_ASYNC(int, waits_for_trim, struct world *world; struct range * a; struct range * b;
         uint64_t begin; AW_SHARE(struct stays stays; aw_sleep nap;);) {
    AW_BEGIN;
    AW_AWAIT(self->stays, AW_CALL(stays, .range = self->a, .deep = 50000));
    CHECK_GT(resident(*self->a), 0);
    /* Each use restarts the second, whenever the loop wakes in between. */
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(600)));
    CHECK_GT(resident(*self->a), 0);
    AW_AWAIT(self->stays, AW_CALL(stays, .range = self->b, .deep = 50000));
    CHECK_EQ(self->a->low, self->b->low);
    self->begin = self->world->now;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(600)));
    CHECK_GT(resident(*self->a), 0);
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(399)));
    CHECK_GT(resident(*self->a), 0);
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(2)));
    CHECK_EQ(self->world->now - self->begin, AW_MSEC(1001));
    CHECK_EQ(mappings.bytes, 0);
    /* Nothing is left to trim. */
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(100)));
    AW_AWAIT(self->stays, AW_CALL(stays, .range = self->b));
    AW_RETURN(0);
    AW_END;
}

TEST(memory_is_freed_after_a_second_without_work) {
    struct world w = {.now = AW_SEC(5)};
    struct range a, b;
    w.seam = (aw_seam){.self_size = sizeof(aw_seam),
                       .data = &w,
                       .now = world_now,
                       .park = world_park,
                       .unpark = world_unpark};
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.seam = &w.seam;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(waits_for_trim, .world = &w, .a = &a, .b = &b)), 0);
    aw_runtime_free(rt);
}

/* ---- Threads that end ------------------------------------------------------------------------ */

static void *crowd_on_a_thread(void *unused) {
    (void)unused;
    CHECK_EQ(aw_run(AW_CALL(crowd, .count = SOME, .check = check_guards)), 0);
    CHECK_GT(mappings.bytes, SOME * 256 * 1024);
    return NULL;
}

TEST(a_thread_that_ends_frees_its_stacks) {
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, crowd_on_a_thread, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(mappings.bytes, 0);
        for (int n = 0; n < SOME; n++)
            CHECK(is_out_of_bounds(ranges[n].low));
    }
}

/* That pool keeps its memory for ever, which must not count as a leak. */
static char bump[65536] __attribute__((aligned(16)));
static size_t bumped;

static void *bump_alloc(void *data, size_t size) {
    (void)data;
    char *p = bump + bumped;
    bumped += (size + 15) & ~(size_t)15;
    CHECK_LE(bumped, sizeof bump);
    return p;
}
static void bump_release(void *data, void *p, size_t size) {
    (void)data, (void)p, (void)size;
}

static struct stays abandoned;

static void *abandon_one(void *unused) {
    (void)unused;
    aw_flag flag = {0};
    CHECK_EQ(POLL(&abandoned, &flag), AW_PENDING);
    return NULL;
}

TEST(a_fiber_left_behind_on_a_thread_that_has_ended_keeps_its_stack) {
    static const aw_allocator allocator = {bump_alloc, bump_release, NULL};
    static struct range p;
    aw_set_allocator(&allocator);
    abandoned = AW_CALL(stays, .range = &p, .end = &end);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, abandon_one, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(!is_out_of_bounds(p.low));
    CHECK(abandoned.aw_fiber != NULL);
    aw_flag flag = {0};
    DIES(POLL(&abandoned, &flag), "fiber 'stays' was first polled by another thread");
    DIES(CANCEL(&abandoned, &flag), "fiber 'stays' was first polled by another thread");
}

/* ---- Many fibers ----------------------------------------------------------------------------- */

static long mappings_with_all;
static void count_mappings(int count) {
    (void)count;
    mappings_with_all = mapping_count();
}

TEST_LIMIT(twenty_thousand_fibers_live_at_once, 60) {
    int count = test_scale(20000);
    CHECK_EQ(aw_run(AW_CALL(crowd, .count = count, .check = count_mappings)), 0);
    if (marks_work() && !test_under_sanitizer()) CHECK_LT(mappings_with_all, 2000);
    aw_stacks_trim();
    CHECK_EQ(mappings.bytes, 0);
}

/* ---- Kernels without guard marks ------------------------------------------------------------- */

TEST(an_older_kernel_guards_by_protection) {
    mappings.marks = MARKS_UNKNOWN;
    CHECK_EQ(aw_run(AW_CALL(crowd, .count = SOME, .check = check_guards)), 0);
    CHECK_GE(mappings.protect_calls, SOME);
    aw_stacks_trim();
    CHECK_EQ(mappings.bytes, 0);
    CHECK_EQ(aw_run(AW_CALL(crowd, .count = SOME, .check = check_guards)), 0);
}

TEST(an_emulator_that_ignores_marks_is_noticed) {
    mappings.marks = MARKS_IGNORED;
    CHECK_EQ(aw_run(AW_CALL(crowd, .count = SOME, .check = check_guards)), 0);
    CHECK_EQ(mappings.mark_calls, 1); /* tried once */
    CHECK_GE(mappings.protect_calls, SOME);
}

/* The limit on mappings is reached, and later it is not. */
AW_FIBER(int, meets_the_limit, int refused;) {
    enum { BEFORE = 3 };
    static struct stays *early[BEFORE];
    for (int i = 0; i < BEFORE; i++)
        early[i] = aw_spawn(AW_CALL(stays, .end = &end, .deep = 20000));
    CHECK_EQ(aw_fiber_yield(), 0);
    long mapped = mappings.bytes;
    mappings.refuse_protect = true;
    for (int i = 0; i < 100; i++)
        self->refused += aw_await(AW_CALL(stays, .deep = 20000)) == -ENOMEM;
    CHECK_EQ(mappings.bytes, mapped); /* nothing half done is kept */
    mappings.refuse_protect = false;
    CHECK_EQ(aw_await(AW_CALL(stays, .deep = 20000)), 0);
    aw_notify_waiters(&end);
    for (int i = 0; i < BEFORE; i++) {
        CHECK_EQ(aw_await(aw_task_join(early[i])), 0);
        CHECK_EQ(aw_task_take(early[i]), 0);
    }
    return self->refused;
}

TEST(without_a_mapping_for_the_guard_there_is_no_stack_and_later_there_is) {
    mappings.marks = MARKS_UNKNOWN;
    CHECK_EQ(aw_run(AW_CALL(meets_the_limit)), 100);
    aw_stacks_trim();
    CHECK_EQ(mappings.bytes, 0);
}

/* The same with the real limit of the kernel. */
static struct stays *crew[50000];

AW_FIBER(int, uses_up_all_mappings, int count_max;) {
    int count = 0, refused = 0;
    /* Fibers that get no stack end at once. */
    for (int i = 0; i < self->count_max; i++)
        crew[i] = aw_spawn(AW_CALL(stays, .end = &end));
    CHECK_EQ(aw_fiber_yield(), 0);
    CHECK_EQ(aw_fiber_yield(), 0);
    aw_notify_waiters(&end);
    for (int i = 0; i < self->count_max; i++) {
        CHECK_EQ(aw_await(aw_task_join(crew[i])), 0);
        int out = aw_task_take(crew[i]);
        CHECK(out == 0 || out == -ENOMEM);
        count += out == 0;
        refused += out == -ENOMEM;
    }
    CHECK_GT(count, 10000);
    CHECK_GT(refused, 0);
    return 0;
}

TEST_LIMIT(when_the_kernel_has_no_more_mappings_fibers_end_with_no_memory, 60) {
    if (getenv("AWAKE_TEST_EMULATED")) SKIP("the emulator would be out of mappings, too");
    long limit = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file) {
        if (fscanf(file, "%ld", &limit) != 1) limit = 0;
        fclose(file);
    }
    if (test_under_sanitizer() || test_under_valgrind())
        SKIP("a sanitizer needs mappings of its own and does not go on without");
    if (limit <= 0 || limit > 90000) SKIP("the limit of mappings is not the usual one");
    mappings.marks = MARKS_UNKNOWN;
    CHECK_EQ(aw_run(AW_CALL(uses_up_all_mappings, .count_max = (int)limit / 2 + 1000)), 0);
    aw_stacks_trim();
    CHECK_EQ(mappings.bytes, 0);
    CHECK_LT(mapping_count(), 1000);
    mappings.marks = MARKS_AS_HERE;
    CHECK_EQ(aw_run(AW_CALL(crowd, .count = SOME, .check = check_guards)), 0);
}
