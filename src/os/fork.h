/* SPDX-License-Identifier: MIT
 *
 * Noticing that this process is the child of a fork: threads are gone, locks may be taken for ever. */
#ifndef AW_OS_FORK_H
#define AW_OS_FORK_H

#include <stdint.h>

/* How many forks lie between this process and the one that began. Changes only while there is one thread. */
extern uint32_t aw__fork_generation;

/* Begin to count. 0, or a negative errno. Any thread, as often as one likes. */
int aw__fork_watch(void);

#endif
