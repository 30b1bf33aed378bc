/* SPDX-License-Identifier: MIT */
#ifndef AW_IO_URING_H
#define AW_IO_URING_H

#include <errno.h>

#include "io/driver.h"

/* 0 if rings can be created, otherwise the reason: -ENOSYS, -EPERM, or another errno. Probed once,
 * unless the probe fails for lack of memory or descriptors. */
int aw__uring_works(void);

/* Forbidden by policy, or unknown to the kernel; not a shortage of resources. */
static inline bool aw__uring_is_refused(int error) {
    return error == -EPERM || error == -EACCES || error == -ENOSYS;
}

/* Whether the kernel has accepts that do not wait (IORING_ACCEPT_DONTWAIT, since 6.10): rule 3 of
 * uring_state.h. */
bool aw__uring_has_accept_dontwait(void);

#endif
