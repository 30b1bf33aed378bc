/* SPDX-License-Identifier: MIT
 *
 * Forbids system calls to the own process with seccomp, as the policy of a container does. */
#ifndef AWAKE_TEST_SECCOMP_H
#define AWAKE_TEST_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_FORBIDDEN = 7 };

__attribute__((unused)) static const int uring_calls[] = {SYS_io_uring_setup, SYS_io_uring_enter,
                                                          SYS_io_uring_register};

/* From now on these calls fail with `error`, in all threads and in exec'ed programs. False:
 * seccomp is not available. */
__attribute__((unused)) static bool forbid_calls(const int *calls, size_t count, int error) {
    struct sock_filter code[2 * MAX_FORBIDDEN + 2];
    unsigned n = 0;
    if (count > MAX_FORBIDDEN) return false;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0,
                                                 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                                 SECCOMP_RET_ERRNO | (unsigned)error);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

#endif
