/* SPDX-License-Identifier: MIT
 *
 * A model checker for code that uses base/atomic.h. It runs the real code in two to four
 * simulated threads, under every schedule up to a bound, and with every value that a load may
 * return. Include it first, before the code under test: that code then uses the atomics at the
 * end of this file.
 *
 *     static uint32_t lock;
 *     static int count;
 *
 *     static void setup(void) { lock = 0, count = 0; }
 *     static void add(void) { aw__lock(&lock); count++; aw__unlock(&lock); }
 *     static void check(void) { model_check(count == 2); }
 *
 *     MODEL(a_lock_keeps_others_out, .setup = setup, .threads = {add, add}, .check = check)
 *
 * Everything runs in one OS thread. Before each atomic operation any simulated thread may be the
 * next to run; each choice is a branch of a depth-first search. Each execution starts with
 * `setup`, which must initialise all shared variables. Nothing is random: a failure comes with
 * its schedule, and is found again by the same schedule.
 *
 * Failures are: model_check and model_fail; a data race; memory of model_alloc that is used or
 * freed after its model_free, or unordered with it; all threads waiting, which means a lost
 * wake-up; endless spinning.
 *
 * Data races are found by happens-before, not by luck. Plain accesses are checked if the
 * compiler reports them (MODEL_SEES_PLAIN: compiled, not linked, with -fsanitize=thread; the
 * checker implements the functions that the compiler calls). Otherwise only those by model_read
 * and model_write are.
 *
 * Modelled parts of the C11 memory model:
 *   - The stores to a location have one order. A thread may load any store that is not older
 *     than one it knows, because it has read or written that one, or because that one happened
 *     before. So stores can appear late or reordered (message passing, store buffering, IRIW),
 *     and loads early.
 *   - Release and acquire, by operation or by fence. A release sequence continues through
 *     read-modify-writes of any order. A failing compare-and-swap is a load, which may return an
 *     old value.
 *   - seq_cst: these operations are ordered by execution. A seq_cst load returns nothing older
 *     than what an earlier seq_cst operation stored to, or loaded from, the same location. A
 *     seq_cst fence passes on all that its thread knows.
 * Not modelled:
 *   - A load never returns a later store (no load buffering, nothing out of thin air).
 *   - The stores to a location are ordered by execution (no 2+2W). A read-modify-write reads the
 *     newest.
 *   - Dependencies order nothing (as in C11 without consume).
 *   - More preemptions or old values in one execution than the bounds of the model.
 *     AWAKE_MODEL_DEEPER=n in the environment raises all bounds by n. */
#ifndef AWAKE_TEST_MODEL_H
#define AWAKE_TEST_MODEL_H

#define AW_BASE_ATOMIC_H /* replaces base/atomic.h */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test.h"

/* ---- Models ---------------------------------------------------------------------------------- */

enum { MODEL_THREADS = 4, MODEL_NONE = -1, MODEL_UNBOUNDED = 1 << 20 };

struct model {
    void (*setup)(void);
    void (*threads[MODEL_THREADS])(void);
    void (*check)(void); /* runs after all threads have ended, and sees everything */
    int preemptions;     /* of threads that could continue; 0: two */
    int stale;           /* loads that return an old value; 0: two (one under sanitizers) */
    int limit;           /* maximum number of executions; 0: a million */
};

/* A test: no execution fails, and there is more than one. Defines model_NAME. */
#define MODEL(name, ...)                                                                           \
    static const struct model model_##name = {__VA_ARGS__};                                        \
    TEST_LIMIT(name, 120) {                                                                        \
        model_passes(&model_##name);                                                               \
    }

/* A test: some execution fails, and its message contains the text. */
#define MODEL_BROKEN(name, text, ...)                                                              \
    static const struct model model_##name = {__VA_ARGS__};                                        \
    TEST_LIMIT(name, 120) {                                                                        \
        model_fails(&model_##name, text);                                                          \
    }

/* A test: weakens each memory order in a file in turn. Each time one of the models (pointers)
 * must fail. Orders listed in `harmless` are exceptions, and for these no model may fail. If a
 * model leaves `stale` open, only one load in an execution returns an old value. */
#define MODEL_ORDERS(name, file, harmless, ...)                                                    \
    TEST_LIMIT(name, 240) {                                                                        \
        model_orders(file, harmless, (const struct model *const[]){__VA_ARGS__, NULL});            \
    }

struct model_harmless {
    const char *function;  /* that contains the operation; "*": any */
    const char *operation; /* a part of its text */
    const char *order;     /* as in model_order_names */
    const char *why;
};
extern const struct model_harmless model_all_matter[]; /* empty; such lists end with NULL */

struct model_result {
    uint64_t executions, steps; /* number of executions; steps of the longest */
    bool exceeded;              /* the limit was reached; the other executions are unknown */
    /* NULL, or message and schedule; valid until the next exploration */
    const char *failure;
};
struct model_result model_explore(const struct model *m);
void model_passes(const struct model *m);
void model_fails(const struct model *m, const char *text);
void model_orders(const char *file, const struct model_harmless *harmless,
                  const struct model *const *models);

/* ---- For the bodies -------------------------------------------------------------------------- */

int model_self(void); /* the number of this thread; -1 in setup and check */

#define model_check(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) model_fail("%s:%d: CHECK(%s)", __FILE__, __LINE__, #condition);          \
    } while (0)
__attribute__((noreturn, format(printf, 1, 2))) void model_fail(const char *format, ...);

/* Returns 0 to n - 1: each in some execution. */
int model_choose(int n);

/* Waits until the condition holds. The condition sees the newest values and must not change any.
 * Its truth makes nothing visible to the thread. */
#define model_wait(condition, arg)                                                                 \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_WAIT, 0, "model_wait(" #condition ", " #arg ")", char);                  \
        model__wait(&site_, __func__, condition, arg);                                             \
    }))

/* A token in a word, 0 or 1, as in os/park.h: park waits for it and takes it. What happened
 * before the unpark is visible after the park. */
#define model_park(word)                                                                           \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_WAIT, 0, "model_park(" #word ")", uint32_t);                             \
        model__wait(&site_, __func__, model__has_token, word);                                     \
        (void)MODEL__OP(EXCHANGE, MODEL_ACQ_REL, "model_park(" #word ")", word, 0u);               \
    }))
#define model_unpark(word)                                                                         \
    ((void)MODEL__OP(EXCHANGE, MODEL_ACQ_REL, "model_unpark(" #word ")", word, 1u))

/* Like the kernel's: sleeps if the word has that value; a wake-up without a sleeper is lost.
 * Orders nothing. A timeout of a sleep counts as a preemption. */
#define model_futex_wait(word, value, times_out)                                                   \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_WAIT, 0, "futex_wait(" #word ", " #value ")", uint32_t);                 \
        model__futex_wait(&site_, __func__, word, value, times_out);                               \
    }))
#define model_futex_wake(word, n)                                                                  \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_WAKE, 0, "futex_wake(" #word ", " #n ")", uint32_t);                     \
        model__futex_wake(&site_, __func__, word, n);                                              \
    }))

/* For a thread that spins: another thread must make a step before it continues. */
#define model_yield()                                                                              \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_YIELD, 0, "model_yield()", char);                                        \
        model__yield(&site_, __func__);                                                            \
    }))

/* Plain accesses that are checked in every build. */
#define model_read(p)                                                                              \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_READ, 0, "model_read(" #p ")", __typeof__(*(p)));                        \
        model__access(&site_, __func__, p);                                                        \
        *(p);                                                                                      \
    }))
#define model_write(p, v)                                                                          \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_WRITE, 0, "model_write(" #p ", " #v ")", __typeof__(*(p)));              \
        model__access(&site_, __func__, p);                                                        \
        (void)(*(p) = (v));                                                                        \
    }))

/* Zeroed. Remaining blocks are freed after the execution; model_allocated counts them. */
#define model_alloc(size) model__alloc(size)
#define model_free(p)                                                                              \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_FREE, 0, "model_free(" #p ")", char);                                    \
        model__free(&site_, __func__, p);                                                          \
    }))
int model_allocated(void);

/* A thread-local variable of the code under test: each simulated thread has its own, initialised
 * with the value that setup left. Called by setup. */
void model_thread_local(void *p, size_t size);

/* ---- Operations ------------------------------------------------------------------------------ */

enum model_kind {
    MODEL_LOAD,
    MODEL_STORE,
    MODEL_EXCHANGE,
    MODEL_ADD,
    MODEL_SUB,
    MODEL_OR,
    MODEL_AND,
    MODEL_CAS,
    MODEL_FENCE,
    MODEL_WAIT,
    MODEL_WAKE,
    MODEL_YIELD,
    MODEL_READ,
    MODEL_WRITE,
    MODEL_FREE
};

enum { /* orders */
       MODEL_RELAXED = 0,
       MODEL_ACQUIRE = 1,
       MODEL_RELEASE = 2,
       MODEL_SEQ_CST = 4, /* with one or both of the above */
       MODEL_FAILURE = 8, /* of a compare-and-swap: acquire on failure */
       MODEL_ACQ_REL = MODEL_ACQUIRE | MODEL_RELEASE,
       MODEL_SEQ = MODEL_ACQ_REL | MODEL_SEQ_CST
};
extern const char *const model_order_names[4]; /* "acquire", "release", "seq_cst", "failure" */

/* An operation in the source. */
struct model_site {
    const char *file;
    int line;
    const char *text;
    enum model_kind kind;
    unsigned orders, size;
    unsigned weak; /* orders to leave out, for MODEL_ORDERS */
    bool known;
    const char *function;
    struct model_site *next;
};

#define MODEL__SITE(kind_, orders_, text_, type)                                                   \
    static struct model_site site_ = {__FILE__,     __LINE__, text_, kind_, orders_,               \
                                      sizeof(type), 0,        false, NULL,  NULL}

/* The type that a pointer points to, without qualifiers. */
#define MODEL__TYPE(p) __typeof__((void)0, *(p))

#define MODEL__OP(kind, orders, text, p, v)                                                        \
    __extension__({                                                                                \
        MODEL__SITE(MODEL_##kind, orders, text, *(p));                                             \
        MODEL__TYPE(p) value_ = (v);                                                               \
        (MODEL__TYPE(p))(uintptr_t) model__op(&site_, __func__, p, (uint64_t)(uintptr_t)value_);   \
    })
#define MODEL__CAS(orders, text, p, expected, desired)                                             \
    __extension__({                                                                                \
        MODEL__SITE(MODEL_CAS, orders, text, *(p));                                                \
        MODEL__TYPE(p) value_ = (desired), *expected_ = (expected);                                \
        uint64_t seen_ = (uint64_t)(uintptr_t)*expected_;                                          \
        bool done_ = model__cas(&site_, __func__, p, &seen_, (uint64_t)(uintptr_t)value_);         \
        if (!done_) *expected_ = (MODEL__TYPE(p))(uintptr_t)seen_;                                 \
        done_;                                                                                     \
    })
#define MODEL__FENCE(orders, text)                                                                 \
    __extension__({                                                                                \
        MODEL__SITE(MODEL_FENCE, orders, text, char);                                              \
        model__fence(&site_, __func__);                                                            \
    })

uint64_t model__op(struct model_site *site, const char *function, const void *p, uint64_t v);
bool model__cas(struct model_site *site, const char *function, const void *p, uint64_t *expected,
                uint64_t desired);
void model__fence(struct model_site *site, const char *function);
void model__wait(struct model_site *site, const char *function, bool (*condition)(void *arg),
                 void *arg);
bool model__has_token(void *word);
void model__futex_wait(struct model_site *site, const char *function, const uint32_t *word,
                       uint32_t value, bool times_out);
int model__futex_wake(struct model_site *site, const char *function, const uint32_t *word, int n);
void model__yield(struct model_site *site, const char *function);
void model__access(struct model_site *site, const char *function, const void *p);
void *model__alloc(size_t size);
void model__free(struct model_site *site, const char *function, void *p);

/* Nested operations in the code under test each declare a site_. */
#pragma GCC diagnostic ignored "-Wshadow"

/* ---- In place of base/atomic.h --------------------------------------------------------------- */

/* clang-format off */
#define aw__load_relaxed(p)         MODEL__OP(LOAD, MODEL_RELAXED, "aw__load_relaxed(" #p ")", p, 0)
#define aw__load_acquire(p)         MODEL__OP(LOAD, MODEL_ACQUIRE, "aw__load_acquire(" #p ")", p, 0)
#define aw__load_seq(p)             MODEL__OP(LOAD, MODEL_ACQUIRE | MODEL_SEQ_CST, "aw__load_seq(" #p ")", p, 0)
#define aw__store_relaxed(p, v)     ((void)MODEL__OP(STORE, MODEL_RELAXED, "aw__store_relaxed(" #p ", " #v ")", p, v))
#define aw__store_release(p, v)     ((void)MODEL__OP(STORE, MODEL_RELEASE, "aw__store_release(" #p ", " #v ")", p, v))
#define aw__store_seq(p, v)         ((void)MODEL__OP(STORE, MODEL_RELEASE | MODEL_SEQ_CST, "aw__store_seq(" #p ", " #v ")", p, v))
#define aw__exchange(p, v)          MODEL__OP(EXCHANGE, MODEL_ACQ_REL, "aw__exchange(" #p ", " #v ")", p, v)
#define aw__exchange_seq(p, v)      MODEL__OP(EXCHANGE, MODEL_SEQ, "aw__exchange_seq(" #p ", " #v ")", p, v)
#define aw__fetch_add(p, v)         MODEL__OP(ADD, MODEL_ACQ_REL, "aw__fetch_add(" #p ", " #v ")", p, v)
#define aw__fetch_add_relaxed(p, v) MODEL__OP(ADD, MODEL_RELAXED, "aw__fetch_add_relaxed(" #p ", " #v ")", p, v)
#define aw__fetch_add_seq(p, v)     MODEL__OP(ADD, MODEL_SEQ, "aw__fetch_add_seq(" #p ", " #v ")", p, v)
#define aw__fetch_sub(p, v)         MODEL__OP(SUB, MODEL_ACQ_REL, "aw__fetch_sub(" #p ", " #v ")", p, v)
#define aw__fetch_sub_seq(p, v)     MODEL__OP(SUB, MODEL_SEQ, "aw__fetch_sub_seq(" #p ", " #v ")", p, v)
#define aw__fetch_or(p, v)          MODEL__OP(OR, MODEL_ACQ_REL, "aw__fetch_or(" #p ", " #v ")", p, v)
#define aw__fetch_and(p, v)         MODEL__OP(AND, MODEL_ACQ_REL, "aw__fetch_and(" #p ", " #v ")", p, v)
#define aw__cas(p, e, d)            MODEL__CAS(MODEL_ACQ_REL | MODEL_FAILURE, "aw__cas(" #p ", " #e ", " #d ")", p, e, d)
#define aw__cas_seq(p, e, d)        MODEL__CAS(MODEL_SEQ | MODEL_FAILURE, "aw__cas_seq(" #p ", " #e ", " #d ")", p, e, d)
#define aw__fence_acquire()         MODEL__FENCE(MODEL_ACQUIRE, "aw__fence_acquire()")
#define aw__fence_release()         MODEL__FENCE(MODEL_RELEASE, "aw__fence_release()")
#define aw__fence_seq()             MODEL__FENCE(MODEL_SEQ, "aw__fence_seq()")
#define aw__spin_hint()             model_yield()
/* clang-format on */

#include "support/model.c"
#include "support/model_test.c"

#endif
