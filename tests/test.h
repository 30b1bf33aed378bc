/* SPDX-License-Identifier: MIT
 *
 * The header of all test programs. Each .c file under tests/ is a program with many tests:
 *
 *     #include "test.h"
 *
 *     TEST(dropping_a_handle_detaches) {
 *         CHECK(x != NULL);
 *         CHECK_EQ(a, b);
 *     }
 *
 * `prog --list` prints the tests, `prog NAME` runs one, `prog` runs each in its own process.
 * tests/run.py runs all tests of all programs with time limits.
 *
 * A failed check prints its location and values, and ends the process at once, on any thread. */
#ifndef AWAKE_TEST_H
#define AWAKE_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Tests ----------------------------------------------------------------------------------- */

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

/* The first statement of a test that is about the current-thread flavour, with the reason. All
 * its runtimes have that flavour, whatever AWAKE_FLAVOUR says. The suites with workers do not
 * run it. */
#define ON_THIS_THREAD(reason) test_on_this_thread()

/* The same for all tests of a file. */
#define ALL_ON_THIS_THREAD(reason)                                                                 \
    __attribute__((constructor)) static void test_all_on_this_thread(void) {                       \
        test_on_this_thread();                                                                     \
    }                                                                                              \
    _Static_assert(1, reason)

/* Ends the test, which cannot run here. The summary shows the reason. */
#define SKIP(reason) test_skip(reason)

/* Ends the test as failed. */
#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

/* ---- Checks ---------------------------------------------------------------------------------- */

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) FAIL("CHECK(%s)", #condition);                                           \
    } while (0)

/* For integers, enums, bools and pointers. A float would be truncated silently, so it does not
 * compile. */
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

/* The first string contains the second. */
#define CHECK_CONTAINS(text, part) test_check_contains(__FILE__, __LINE__, #text, text, part)

/* The statement must end its process by abort(), after writing the text to stderr. It runs in a
 * forked child, in which only the calling thread exists. */
#define DIES(statement, text)                                                                      \
    do {                                                                                           \
        struct test_death test_death_ = test_death_begin(__FILE__, __LINE__);                      \
        if (test_death_.child == 0) {                                                              \
            statement;                                                                             \
            test_death_survived();                                                                 \
        }                                                                                          \
        test_death_end(__FILE__, __LINE__, test_death_, #statement, text);                         \
    } while (0)

/* ---- Utilities ------------------------------------------------------------------------------- */

uint64_t test_now_ns(void); /* CLOCK_MONOTONIC */

/* AWAKE_TEST_SEED, or a fixed seed. A test that has called this prints the seed when it fails. */
uint64_t test_seed(void);
uint64_t test_random(uint64_t *state); /* splitmix64 */
uint64_t test_random_shared(
    /* The same, for a state that several threads use. */
    uint64_t *state);

bool test_under_sanitizer(void);
bool test_under_address_sanitizer(void);
bool test_under_thread_sanitizer(void);
bool test_under_valgrind(void);

/* The name of the running test. */
const char *test_name(void);

/* Whether AWAKE_FLAVOUR gives workers to the runtimes of this test. */
bool test_on_workers(void);

/* A number of repetitions: n, or n / 10 under sanitizers, valgrind and an emulator. */
int test_scale(int n);

/* ---- Called by the macros -------------------------------------------------------------------- */

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
