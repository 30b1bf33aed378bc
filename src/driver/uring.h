/* SPDX-License-Identifier: MIT */
#ifndef AW_DRIVER_URING_H
#define AW_DRIVER_URING_H

#include <errno.h>

#include "driver/driver.h"

/* Whether rings can be made here: 0, or why not: -ENOSYS, -EPERM, … It is tried once. */
int aw__uring_works(void);

/* Whether that is a word of policy, or of a system that does not know it; and not a lack of something. */
static inline bool aw__uring_is_refused(int error) {
    return error == -EPERM || error == -EACCES || error == -ENOSYS;
}

/* Whether they can accept without keeping a connection from others: uring.c. Since 6.10. */
bool aw__uring_accepts(void);

#endif
