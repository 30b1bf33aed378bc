/* SPDX-License-Identifier: MIT
 *
 *     no_uring PROGRAM [ARGUMENTS]
 *
 * Executes a program with io_uring forbidden, and tells tests/support/io.h by
 * AWAKE_TEST_NO_URING. */
#define _GNU_SOURCE
#include "support/seccomp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXIT_CANNOT_RUN = 127, EXIT_SKIPPED = 77 }; /* EXIT_SKIPPED as in test_main.c */

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s PROGRAM [ARGUMENTS]\n", argv[0]);
        return EXIT_CANNOT_RUN;
    }
    if (!forbid_calls(uring_calls, sizeof uring_calls / sizeof *uring_calls, EPERM)) {
        puts("SKIP: no seccomp here");
        return EXIT_SKIPPED;
    }
    setenv("AWAKE_TEST_NO_URING", "1", 1);
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return EXIT_CANNOT_RUN;
}
