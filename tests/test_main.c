/* SPDX-License-Identifier: MIT
 *
 * The main() of every test program: keeps the list that TEST fills, runs one test or all, and holds
 * what the check macros call. The exit status is the verdict: 0 passed, 77 skipped, other failed.
 */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_SKIPPED = 77, EXIT_SURVIVED = 78 };

static struct test_case *first_test;
static struct test_case **last_link = &first_test;

/* Set once by test_seed, read by a failing thread; the value itself never changes after that. */
static bool seed_was_used;

void test_register(struct test_case *test) {
    *last_link = test;
    last_link = &test->next;
}

/* ---- Verdicts --------------------------------------------------------------------------------- */

/* _exit and not exit: other threads still run, and no atexit handler should meet their half-done work. */
__attribute__((noreturn)) static void end(int status) {
    fflush(stdout);
    fflush(stderr);
    _exit(status);
}

void test_on_this_thread(void) {
    setenv("AWAKE_FLAVOUR", "current", 1);
}

void test_skip(const char *reason) {
    printf("SKIP: %s\n", reason);
    end(EXIT_SKIPPED);
}

void test_fail(const char *file, int line, const char *format, ...) {
    va_list arguments;
    /* Locked, so that two threads that fail together do not mix their lines. */
    flockfile(stderr);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    if (__atomic_load_n(&seed_was_used, __ATOMIC_RELAXED))
        fprintf(stderr, "seed: AWAKE_TEST_SEED=%llu\n", (unsigned long long)test_seed());
    end(EXIT_FAILED);
}

void test_fail_compare(const char *file, int line, const char *a, const char *op, const char *b,
                       long long a_value, long long b_value) {
    test_fail(file, line, "expected %s %s %s\n    left:  %lld (0x%llx)\n    right: %lld (0x%llx)",
              a, op, b, a_value, (unsigned long long)a_value, b_value, (unsigned long long)b_value);
}

void test_check_string(const char *file, int line, const char *a, const char *b,
                       const char *a_value, const char *b_value) {
    if (a_value == b_value) return;
    if (a_value != NULL && b_value != NULL && strcmp(a_value, b_value) == 0) return;
    test_fail(file, line,
              "expected %s and %s to be the same text\n    left:  %s%s%s\n    right: %s%s%s", a, b,
              a_value ? "\"" : "", a_value ? a_value : "NULL", a_value ? "\"" : "",
              b_value ? "\"" : "", b_value ? b_value : "NULL", b_value ? "\"" : "");
}

void test_check_contains(const char *file, int line, const char *expression, const char *text,
                         const char *part) {
    if (text != NULL && strstr(text, part) != NULL) return;
    test_fail(file, line, "expected %s to contain \"%s\"\n    text: %s", expression, part,
              text ? text : "NULL");
}

/* ---- Death tests ------------------------------------------------------------------------------ */

/* The library's, if it is linked: see os/fork.h. */
extern uint32_t aw__fork_generation __attribute__((weak));

struct test_death test_death_begin(const char *file, int line) {
    int ends[2];
    /* What is still buffered would otherwise be written by parent and child. */
    fflush(stdout);
    fflush(stderr);
    if (pipe(ends) != 0) test_fail(file, line, "pipe: %s", strerror(errno));
    uint32_t generation = &aw__fork_generation ? aw__fork_generation : 0;
    pid_t child = fork();
    if (child < 0) test_fail(file, line, "fork: %s", strerror(errno));
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        /* It stands for the parent, and shall die as that would: there was no fork. */
        if (&aw__fork_generation) aw__fork_generation = generation;
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
    }
    close(ends[1]);
    return (struct test_death){child, ends[0]};
}

void test_death_survived(void) {
    end(EXIT_SURVIVED);
}

void test_death_end(const char *file, int line, struct test_death death, const char *statement,
                    const char *text) {
    char output[16384];
    size_t length = 0;
    int status;

    /* Read to the end, so that a child that says a lot does not wait for us; keep what fits. */
    for (;;) {
        char overflow[1024];
        bool full = length == sizeof output - 1;
        char *to = full ? overflow : output + length;
        ssize_t n = read(death.output, to, full ? sizeof overflow : sizeof output - 1 - length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        if (!full) length += (size_t)n;
    }
    output[length] = '\0';
    close(death.output);
    while (waitpid(death.child, &status, 0) < 0) {
        if (errno != EINTR) test_fail(file, line, "waitpid: %s", strerror(errno));
    }

    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SURVIVED)
        test_fail(file, line, "DIES(%s): it survived\n    stderr: %s", statement, output);
    if (WIFEXITED(status))
        test_fail(file, line, "DIES(%s): it exited with %d\n    stderr: %s", statement,
                  WEXITSTATUS(status), output);
    if (WTERMSIG(status) != SIGABRT)
        test_fail(file, line, "DIES(%s): it died by %s\n    stderr: %s", statement,
                  strsignal(WTERMSIG(status)), output);
    if (strstr(output, text) == NULL)
        test_fail(file, line, "DIES(%s): its last words do not contain \"%s\"\n    stderr: %s",
                  statement, text, output);
}

/* ---- Help ------------------------------------------------------------------------------------- */

uint64_t test_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t test_seed(void) {
    const char *given = getenv("AWAKE_TEST_SEED");
    __atomic_store_n(&seed_was_used, true, __ATOMIC_RELAXED);
    return given != NULL && *given != '\0' ? strtoull(given, NULL, 0) : 20260101;
}

static const uint64_t RANDOM_STEP = 0x9e3779b97f4a7c15u;

static uint64_t scramble(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t test_random(uint64_t *state) {
    return scramble(*state += RANDOM_STEP);
}

uint64_t test_random_shared(uint64_t *state) {
    return scramble(__atomic_add_fetch(state, RANDOM_STEP, __ATOMIC_RELAXED));
}

/* gcc defines a macro, clang answers to __has_feature. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif

bool test_under_address_sanitizer(void) {
#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
    return true;
#else
    return false;
#endif
}

bool test_under_thread_sanitizer(void) {
#if defined __SANITIZE_THREAD__ || __has_feature(thread_sanitizer)
    return true;
#else
    return false;
#endif
}

bool test_under_sanitizer(void) {
    return test_under_address_sanitizer() || test_under_thread_sanitizer();
}

/* Valgrind preloads a library of its own into whatever it runs. */
bool test_under_valgrind(void) {
    const char *preload = getenv("LD_PRELOAD");
    return preload != NULL && strstr(preload, "vgpreload") != NULL;
}

bool test_on_workers(void) {
    const char *flavour = getenv("AWAKE_FLAVOUR");
    return flavour != NULL && *flavour != '\0' && strcmp(flavour, "current") != 0;
}

int test_scale(int n) {
    if (!test_under_sanitizer() && !test_under_valgrind() && !getenv("AWAKE_TEST_EMULATED"))
        return n;
    return n >= 10 ? n / 10 : 1;
}

/* ---- Running ---------------------------------------------------------------------------------- */

static int run_one(const char *name) {
    for (struct test_case *test = first_test; test != NULL; test = test->next) {
        if (strcmp(test->name, name) == 0) {
            test->body();
            return 0;
        }
    }
    fprintf(stderr, "there is no test '%s' here; --list names them\n", name);
    return EXIT_FAILED;
}

/* For use by hand: no time limits, one after the other. */
static int run_all(char *program) {
    int failed = 0;
    for (struct test_case *test = first_test; test != NULL; test = test->next) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", program, test->name, (char *)NULL);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) < 0) {
            perror(program);
            return EXIT_FAILED;
        }
        bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED;
        if (status != 0 && !skipped) failed++;
        printf("%-7s %s\n", status == 0 ? "passed" : skipped ? "skipped" : "FAILED", test->name);
        fflush(stdout);
    }
    return failed == 0 ? 0 : EXIT_FAILED;
}

int main(int argc, char **argv) {
    if (argc == 1) return run_all(argv[0]);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (struct test_case *test = first_test; test != NULL; test = test->next)
            printf("%s %d\n", test->name, test->limit);
        return 0;
    }
    if (argc == 2 && argv[1][0] != '-') return run_one(argv[1]);
    fprintf(stderr, "usage: %s [--list | NAME]\n", argv[0]);
    return EXIT_FAILED;
}
