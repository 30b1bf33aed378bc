/* SPDX-License-Identifier: MIT
 *
 * Detects that this process is the child of a fork: the parent's other threads do not exist in it,
 * and locks that they held stay locked. */
#ifndef AW_OS_FORK_H
#define AW_OS_FORK_H

#include <stdint.h>

/* Number of forks between the process that first called aw__fork_watch and this one. It changes
 * only in a new child, which has one thread. */
extern uint32_t aw__fork_generation;

/* Starts counting. Returns 0 or a negative errno. Any thread; repeated calls are harmless. */
int aw__fork_watch(void);

#endif
