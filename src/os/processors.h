/* SPDX-License-Identifier: MIT
 *
 * Which processors this process may use, and how many. */
#ifndef AW_OS_PROCESSORS_H
#define AW_OS_PROCESSORS_H

#include <stdint.h>

/* By affinity and by the quota of its control group, rounded up; at least 1. */
uint32_t aw__processors(void);

/* Those that a thread may run on. */
typedef struct aw__processor_set {
    unsigned long bits[1024 / (8 * sizeof(unsigned long))];
} aw__processor_set;

/* Of the calling thread: ask, set, and bind it to the i-th of a set, which begins again after its last. 0 or
 * a negative errno. */
int aw__processors_get(aw__processor_set *set);
int aw__processors_set(const aw__processor_set *set);
int aw__processors_bind(const aw__processor_set *set, uint32_t i);

#endif
