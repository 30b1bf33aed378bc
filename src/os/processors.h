/* SPDX-License-Identifier: MIT
 *
 * The processors that this process may use. */
#ifndef AW_OS_PROCESSORS_H
#define AW_OS_PROCESSORS_H

#include <stdint.h>

/* How many: the lower of CPU affinity and control group quota (rounded up), and at least 1. */
uint32_t aw__processors(void);

/* The layout of cpu_set_t. */
typedef struct aw__processor_set {
    unsigned long bits[1024 / (8 * sizeof(unsigned long))];
} aw__processor_set;

/* Get or set the affinity of the calling thread, or bind it to the i-th processor of a set,
 * counting modulo its size. 0 or a negative errno. */
int aw__processors_get(aw__processor_set *set);
int aw__processors_set(const aw__processor_set *set);
int aw__processors_bind(const aw__processor_set *set, uint32_t i);

#endif
