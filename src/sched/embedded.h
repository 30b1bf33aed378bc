/* SPDX-License-Identifier: MIT
 *
 * A runtime in another event loop: see embed.c. Called by a thread that has become the owner, and
 * before it ceases to be the owner. */
#ifndef AW_SCHED_EMBEDDED_H
#define AW_SCHED_EMBEDDED_H

#include "task/runtime_state.h"

void aw__embedded_awake(aw_runtime *rt);
void aw__embedded_asleep(aw_runtime *rt);
void aw__embedded_end(aw_runtime *rt);

#endif
