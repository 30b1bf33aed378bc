/* SPDX-License-Identifier: MIT
 *
 * How many processors this process may use. */
#ifndef AW_OS_PROCESSORS_H
#define AW_OS_PROCESSORS_H

#include <stdint.h>

/* By affinity and by the quota of its control group, rounded up; at least 1. */
uint32_t aw__processors(void);

#endif
