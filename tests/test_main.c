/* SPDX-License-Identifier: MIT
 *
 * The main() of every test program: runs one test or all, and implements the check macros. The
 * exit status is the verdict: 0 passed, 77 skipped, other failed. */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_SKIPPED = 77, EXIT_SURVIVED = 78 };

static struct test_case *first_test;
static struct test_case **last_link = &first_test;

/* Set by test_seed, read by a failing thread. The seed itself does not change. */
static bool seed_was_used;

void test_register(struct test_case *test) {
    *last_link = test;
    last_link = &test->next;
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

/* _exit, not exit: other threads still run, and atexit handlers must not see their unfinished
 * work. */
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
    /* Locked, so that two threads that fail at once do not mix their lines. */
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

/* ---- Death tests ----------------------------------------------------------------------------- */

/* Defined by the library, if it is linked: see os/fork.h. */
extern uint32_t aw__fork_generation __attribute__((weak));

struct test_death test_death_begin(const char *file, int line) {
    int ends[2];
    /* Buffered output would otherwise be written by parent and child. */
    fflush(stdout);
    fflush(stderr);
    if (pipe(ends) != 0) test_fail(file, line, "pipe: %s", strerror(errno));
    uint32_t generation = &aw__fork_generation ? aw__fork_generation : 0;
    pid_t child = fork();
    if (child < 0) test_fail(file, line, "fork: %s", strerror(errno));
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        /* The child stands for the parent: hide the fork from the library. */
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

    /* Read to the end, so that the child never blocks on a full pipe; keep what fits. */
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
        test_fail(file, line, "DIES(%s): its stderr does not contain \"%s\"\n    stderr: %s",
                  statement, text, output);
}

/* ---- Utilities ------------------------------------------------------------------------------- */

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

/* gcc defines a macro, clang has __has_feature. */
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

/* Valgrind preloads its own library. */
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

/* ---- Running --------------------------------------------------------------------------------- */

static const char *running;

const char *test_name(void) {
    return running;
}

static int run_one(const char *name) {
    for (struct test_case *test = first_test; test != NULL; test = test->next) {
        if (strcmp(test->name, name) == 0) {
            running = test->name;
            test->body();
            return 0;
        }
    }
    fprintf(stderr, "there is no test '%s' here; --list names them\n", name);
    return EXIT_FAILED;
}

/* For manual use: no time limits, one test after the other. */
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

/* ---- For the runner: many tests, one exec ---------------------------------------------------- */

/* `prog --each FACTOR` reads names of tests from stdin, one per line, and runs each in a forked
 * child with its own session, its own scratch directory below $TMPDIR, and FACTOR times its time
 * limit. Starting a program costs more than most tests, so one exec serves all. For each test it
 * prints a line
 *
 *     NAME STATUS SECONDS SIZE        the exit status, or minus the signal, or "late"
 *
 * followed by SIZE bytes: the output of the test on stdout and stderr. The parent creates no
 * threads and no runtimes, so that a child starts like a fresh process. */
static void show_stacks(pid_t child, int output) {
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)child);
    pid_t debugger = fork();
    if (debugger == 0) {
        dup2(output, STDOUT_FILENO);
        close(STDERR_FILENO);
        alarm(30);
        execlp("gdb", "gdb", "-p", pid, "-batch", "-nx", "-ex", "thread apply all backtrace",
               (char *)NULL);
        _exit(127);
    }
    if (debugger > 0) waitpid(debugger, NULL, 0);
}

/* Whether the child ends in time. */
static bool ends_within(pid_t child, double seconds) {
    int fd = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd end = {fd, POLLIN, 0};
    int n = fd < 0 ? -1 : poll(&end, 1, (int)(seconds * 1000));
    if (fd >= 0) close(fd);
    return n > 0;
}

static void run_child(struct test_case *test, const char *scratch, int output) {
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setsid();
    dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(nothing);
    close(output);
    setenv("TMPDIR", scratch, 1);
    if (chdir(scratch) != 0) _exit(127);
    running = test->name;
    test->body();
    exit(0); /* like the end of main: leak checkers report here */
}

static void copy_output(int output, size_t size) {
    char buf[65536];
    lseek(output, 0, SEEK_SET);
    for (ssize_t n; size && (n = read(output, buf, sizeof buf < size ? sizeof buf : size)) > 0;
         size -= (size_t)n)
        fwrite(buf, 1, (size_t)n, stdout);
}

static bool run_in_child(struct test_case *test, double factor) {
    enum { MAX_OUTPUT = 1 << 20 };
    char scratch[4096];
    const char *base = getenv("TMPDIR");
    int status = 0;
    snprintf(scratch, sizeof scratch, "%s/each-XXXXXX", base ? base : "/tmp");
    int output = memfd_create("output", MFD_CLOEXEC);
    if (output < 0 || !mkdtemp(scratch)) return false;
    uint64_t begin = test_now_ns();
    pid_t child = fork();
    if (child == 0) run_child(test, scratch, output);
    if (child < 0) return false;
    bool late = !ends_within(child, test->limit * factor);
    double seconds = (double)(test_now_ns() - begin) / 1e9;
    if (late) show_stacks(child, output);
    kill(-child, SIGKILL); /* also processes that the test left behind */
    kill(child, SIGKILL);  /* it may not have a session yet */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    off_t end = lseek(output, 0, SEEK_END);
    size_t size = end < MAX_OUTPUT ? (size_t)end : MAX_OUTPUT;
    printf("%s ", test->name);
    if (late)
        printf("late");
    else
        printf("%d", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
    printf(" %.3f %zu\n", seconds, size);
    copy_output(output, size);
    fflush(stdout);
    close(output);
    rmdir(scratch); /* the runner removes a directory that is not empty */
    return true;
}

static int run_each(const char *factor) {
    char name[512];
    setvbuf(stdin, NULL, _IONBF, 0); /* a child's exit would move the shared offset */
    while (fgets(name, sizeof name, stdin)) {
        name[strcspn(name, "\n")] = '\0';
        struct test_case *test = first_test;
        while (test && strcmp(test->name, name) != 0)
            test = test->next;
        if (!test || !run_in_child(test, strtod(factor, NULL))) {
            fprintf(stderr, "cannot run '%s': %s\n", name, test ? strerror(errno) : "no such test");
            return EXIT_FAILED;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 1) return run_all(argv[0]);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (struct test_case *test = first_test; test != NULL; test = test->next)
            printf("%s %d\n", test->name, test->limit);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--each") == 0) return run_each(argv[2]);
    if (argc == 2 && argv[1][0] != '-') return run_one(argv[1]);
    fprintf(stderr, "usage: %s [--list | NAME | --each FACTOR]\n", argv[0]);
    return EXIT_FAILED;
}
