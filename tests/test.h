/* SPDX-License-Identifier: MIT
 *
 * What every test program includes. A file under tests/ is one program with many tests:
 *
 *     #include "test.h"
 *
 *     TEST(dropping_a_handle_detaches) {
 *         CHECK(x != NULL);
 *         CHECK_EQ(a, b);
 *     }
 *
 * `prog --list` names its tests, `prog NAME` runs one, `prog` alone runs each in a process of its
 * own. tests/run.py runs every test of every program that way, with a time limit.
 *
 * A failed check prints where and what, and ends the process at once, from whatever thread: nothing
 * that a broken test would do next is worth reading.
 */
#ifndef AWAKE_TEST_H
#define AWAKE_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Tests ------------------------------------------------------------------------------------ */

/* Seconds; the runner allows six times as many under a sanitizer. */
#define TEST_DEFAULT_LIMIT 20

struct test_case {
    const char *name;
    int limit;
    void (*body)(void);
    struct test_case *next;
};

void test_register(struct test_case *test);

#define TEST(name) TEST_LIMIT(name, TEST_DEFAULT_LIMIT)

#define TEST_LIMIT(name, seconds)                                                                  \
    static void test_body_##name(void);                                                            \
    __attribute__((constructor)) static void test_register_##name(void) {                          \
        static struct test_case test = {#name, seconds, test_body_##name, NULL};                   \
        test_register(&test);                                                                      \
    }                                                                                              \
    static void test_body_##name(void)

/* First in a test: it is about the runtime that runs on the thread in block_on, and for this reason. All that it
 * makes are of that flavour, whatever AWAKE_FLAVOUR says; the suites with workers do not have it. */
#define ON_THIS_THREAD(reason) test_on_this_thread()

/* The same for all tests of a file. */
#define ALL_ON_THIS_THREAD(reason)                                                                 \
    __attribute__((constructor)) static void test_all_on_this_thread(void) {                       \
        test_on_this_thread();                                                                     \
    }                                                                                              \
    _Static_assert(1, reason)

/* Ends the test: it cannot run here, for a reason the summary will show. */
#define SKIP(reason) test_skip(reason)

/* Ends the test as failed. */
#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

/* ---- Checks ----------------------------------------------------------------------------------- */

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) FAIL("CHECK(%s)", #condition);                                           \
    } while (0)

/* For integers, enums, bools and pointers. A float would be cut silently, so it does not compile. */
#define CHECK_EQ(a, b) TEST_COMPARE(a, ==, b)
#define CHECK_NE(a, b) TEST_COMPARE(a, !=, b)
#define CHECK_LT(a, b) TEST_COMPARE(a, <, b)
#define CHECK_LE(a, b) TEST_COMPARE(a, <=, b)
#define CHECK_GT(a, b) TEST_COMPARE(a, >, b)
#define CHECK_GE(a, b) TEST_COMPARE(a, >=, b)

#define TEST_COMPARE(a, op, b)                                                                     \
    do {                                                                                           \
        long long test_a_ = TEST_INTEGER(a), test_b_ = TEST_INTEGER(b);                            \
        if (!(test_a_ op test_b_))                                                                 \
            test_fail_compare(__FILE__, __LINE__, #a, #op, #b, test_a_, test_b_);                  \
    } while (0)

#define TEST_INTEGER(x)                                                                            \
    ((void)sizeof(struct {                                                                         \
         _Static_assert(_Generic((x), float : 0, double : 0, default : 1), "not an integer");      \
         int unused;                                                                               \
     }),                                                                                           \
     (long long)(x))

/* Strings; NULL equals only NULL. */
#define CHECK_STR(a, b) test_check_string(__FILE__, __LINE__, #a, #b, a, b)

/* The second string occurs in the first. */
#define CHECK_CONTAINS(text, part) test_check_contains(__FILE__, __LINE__, #text, text, part)

/*
 * The statement ends its process by abort(), having written the text to stderr. It runs in a forked
 * child, in which only the calling thread exists.
 */
#define DIES(statement, text)                                                                      \
    do {                                                                                           \
        struct test_death test_death_ = test_death_begin(__FILE__, __LINE__);                      \
        if (test_death_.child == 0) {                                                              \
            statement;                                                                             \
            test_death_survived();                                                                 \
        }                                                                                          \
        test_death_end(__FILE__, __LINE__, test_death_, #statement, text);                         \
    } while (0)

/* ---- Help ------------------------------------------------------------------------------------- */

uint64_t test_now_ns(void); /* CLOCK_MONOTONIC */

/* AWAKE_TEST_SEED, or a fixed one. A test that asked for it prints it when it fails. */
uint64_t test_seed(void);
uint64_t test_random(uint64_t *state); /* splitmix64 */
uint64_t test_random_shared(
    uint64_t *state); /* the same, for a state that several threads draw from */

bool test_under_sanitizer(void);
bool test_under_address_sanitizer(void);
bool test_under_thread_sanitizer(void);
bool test_under_valgrind(void);

/* Whether AWAKE_FLAVOUR gives workers to the runtimes of this test. */
bool test_on_workers(void);

/* How often to repeat something: n, or a tenth of it where everything is slow. */
int test_scale(int n);

/* ---- What the macros call --------------------------------------------------------------------- */

struct test_death {
    int child; /* 0 in the child */
    int output;
};

void test_on_this_thread(void);
__attribute__((noreturn)) void test_skip(const char *reason);
__attribute__((noreturn, format(printf, 3, 4))) void test_fail(const char *file, int line,
                                                               const char *format, ...);
__attribute__((noreturn)) void test_fail_compare(const char *file, int line, const char *a,
                                                 const char *op, const char *b, long long a_value,
                                                 long long b_value);
void test_check_string(const char *file, int line, const char *a, const char *b,
                       const char *a_value, const char *b_value);
void test_check_contains(const char *file, int line, const char *expression, const char *text,
                         const char *part);
struct test_death test_death_begin(const char *file, int line);
__attribute__((noreturn)) void test_death_survived(void);
void test_death_end(const char *file, int line, struct test_death death, const char *statement,
                    const char *text);

#endif
