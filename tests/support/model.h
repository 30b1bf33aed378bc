/* SPDX-License-Identifier: MIT
 *
 * A model checker for the code over core/atomic.h: it runs the real code in two to four simulated
 * threads, under every schedule up to a bound, and with every value that a load may return. Included
 * first, before the code under test: the atomics of that code are then those at the end of this file.
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
 * Everything happens in one OS thread. Before each atomic operation any thread may be the next to run;
 * what it decides is one branch of a depth-first search, and each execution starts from `setup`, which
 * has to give every shared variable its first value. Nothing in it is random: a failure is found again
 * by the same schedule, which is printed.
 *
 * What counts as a failure: model_check and model_fail; a data race; memory of model_alloc used, or freed,
 * after or unordered with its model_free; all threads waiting (so a wake-up was lost); endless spinning.
 *
 * Data races are found by what happens before what, not by luck. Plain accesses are seen when the compiler
 * reports them (MODEL_SEES_PLAIN: compiled, not linked, with -fsanitize=thread; the checker is what
 * its calls reach), else only those by model_read and model_write.
 *
 * What is modelled of the C11 memory model:
 *   - Each location has all its stores in one order, and a thread may load any that is not older than
 *     one it knows: by having read or written it, or because that happened before. So stores seem to come
 *     late or in another order (message passing, store buffering, IRIW), loads to be early.
 *   - Release and acquire, by operation or by fence; a release sequence goes on through read-modify-writes
 *     of any order; a failing compare-and-swap is a load, which may be an old value.
 *   - seq_cst: operations in their order of execution. A load of that order returns nothing older than
 *     what an earlier one stored to or loaded from the same location; a fence passes on all that is known.
 * What is not:
 *   - A load never returns what is stored later (no load buffering, nothing out of thin air).
 *   - The order of stores to a location is the one in which they are executed (no 2+2W); a
 *     read-modify-write reads the newest.
 *   - Dependencies order nothing (as in C11 without consume).
 *   - More preemptions or old values than the bounds of the model, in one execution. AWAKE_MODEL_DEEPER=n
 *     in the environment raises all bounds by n, when there is time. */
#ifndef AWAKE_TEST_MODEL_H
#define AWAKE_TEST_MODEL_H

#define AW_CORE_ATOMIC_H /* in place of core/atomic.h */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test.h"

/* ---- Models ----------------------------------------------------------------------------------- */

enum { MODEL_THREADS = 4, MODEL_NONE = -1, MODEL_UNBOUNDED = 1 << 20 };

struct model {
    void (*setup)(void);
    void (*threads[MODEL_THREADS])(void);
    void (*check)(void); /* when all threads have ended; it sees everything */
    int preemptions;     /* how often a thread that could go on does not; 0: two */
    int stale;           /* how many loads return an old value; 0: two (one under sanitizers) */
    int limit;           /* how many executions there may be; 0: a million */
};

/* A test: no execution fails, and there is more than one. The model can be named as model_NAME. */
#define MODEL(name, ...)                                                                           \
    static const struct model model_##name = {__VA_ARGS__};                                        \
    TEST_LIMIT(name, 120) {                                                                        \
        model_passes(&model_##name);                                                               \
    }

/* A test: some execution fails, and the message contains the text. */
#define MODEL_BROKEN(name, text, ...)                                                              \
    static const struct model model_##name = {__VA_ARGS__};                                        \
    TEST_LIMIT(name, 120) {                                                                        \
        model_fails(&model_##name, text);                                                          \
    }

/* A test: without any one of the memory orders of a file that the models (pointers to them) meet, one of
 * them fails. Except where the order is harmless to lose, which is to be told, and must be true. Of old
 * values there is only one in an execution, if the model leaves that open. */
#define MODEL_ORDERS(name, file, harmless, ...)                                                    \
    TEST_LIMIT(name, 240) {                                                                        \
        model_orders(file, harmless, (const struct model *const[]){__VA_ARGS__, NULL});            \
    }

struct model_harmless {
    const char *function;  /* in which the operation is; "*": any */
    const char *operation; /* a part of its text */
    const char *order;     /* as in model_order_names */
    const char *why;
};
extern const struct model_harmless model_all_matter[]; /* an empty list; each ends with NULL */

struct model_result {
    uint64_t executions, steps; /* how many; of the longest */
    bool exceeded;              /* the limit; the rest is unknown */
    const char *failure;        /* NULL, or what and the schedule; valid until the next */
};
struct model_result model_explore(const struct model *m);
void model_passes(const struct model *m);
void model_fails(const struct model *m, const char *text);
void model_orders(const char *file, const struct model_harmless *harmless,
                  const struct model *const *models);

/* ---- For the bodies --------------------------------------------------------------------------- */

int model_self(void); /* which thread this is; -1 in setup and check */

#define model_check(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) model_fail("%s:%d: CHECK(%s)", __FILE__, __LINE__, #condition);          \
    } while (0)
__attribute__((noreturn, format(printf, 1, 2))) void model_fail(const char *format, ...);

/* One of 0 to n - 1: each in some execution. */
int model_choose(int n);

/* Wait without being told: until the condition holds, which sees the newest values and must not change
 * any. That it holds says nothing about what is visible. */
#define model_wait(condition, arg)                                                                 \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_WAIT, 0, "model_wait(" #condition ", " #arg ")", char);                  \
        model__wait(&site_, __func__, condition, arg);                                             \
    }))

/* A token in a word, 0 or 1, as of os/park.h: park waits for it and takes it. What was before the
 * unpark is visible after the park. */
#define model_park(word)                                                                           \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_WAIT, 0, "model_park(" #word ")", uint32_t);                             \
        model__wait(&site_, __func__, model__has_token, word);                                     \
        (void)MODEL__OP(EXCHANGE, MODEL_ACQ_REL, "model_park(" #word ")", word, 0u);               \
    }))
#define model_unpark(word)                                                                         \
    ((void)MODEL__OP(EXCHANGE, MODEL_ACQ_REL, "model_unpark(" #word ")", word, 1u))

/* As the kernel's: sleeps if the word has that value; a wake-up that comes when nobody sleeps is lost.
 * Orders nothing. A sleep that can time out does so at the price of a preemption. */
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

/* The thread that spins: another one has to make a step before it goes on. */
#define model_yield()                                                                              \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_YIELD, 0, "model_yield()", char);                                        \
        model__yield(&site_, __func__);                                                            \
    }))

/* Plain accesses that are looked at in every build. */
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

/* Zeroed. What is left at the end is freed then; model_allocated says how many that are. */
#define model_alloc(size) model__alloc(size)
#define model_free(p)                                                                              \
    (__extension__({                                                                               \
        MODEL__SITE(MODEL_FREE, 0, "model_free(" #p ")", char);                                    \
        model__free(&site_, __func__, p);                                                          \
    }))
int model_allocated(void);

/* A thread-local variable of the code under test: each simulated thread has its own, which starts with
 * what setup left there. Called by setup. */
void model_thread_local(void *p, size_t size);

/* ---- Operations ------------------------------------------------------------------------------- */

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
       MODEL_SEQ_CST = 4, /* with the two above */
       MODEL_FAILURE = 8, /* of a compare-and-swap: acquire when it fails */
       MODEL_ACQ_REL = MODEL_ACQUIRE | MODEL_RELEASE,
       MODEL_SEQ = MODEL_ACQ_REL | MODEL_SEQ_CST
};
extern const char *const model_order_names[4]; /* "acquire", "release", "seq_cst", "failure" */

/* A place in the source where something happens. */
struct model_site {
    const char *file;
    int line;
    const char *text;
    enum model_kind kind;
    unsigned orders, size;
    unsigned weak; /* the orders that are left out, as an experiment */
    bool known;
    const char *function;
    struct model_site *next;
};

#define MODEL__SITE(kind_, orders_, text_, type)                                                   \
    static struct model_site site_ = {__FILE__,     __LINE__, text_, kind_, orders_,               \
                                      sizeof(type), 0,        false, NULL,  NULL}

/* Of what a pointer points to, without its qualifiers. */
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

/* The pieces of code under test nest these; each has its own site_. */
#pragma GCC diagnostic ignored "-Wshadow"

/* ---- In place of core/atomic.h ---------------------------------------------------------------- */

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
