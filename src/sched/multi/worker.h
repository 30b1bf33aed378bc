/* SPDX-License-Identifier: MIT
 *
 * The thread of a worker. */
#ifndef AW_SCHED_MULTI_WORKER_H
#define AW_SCHED_MULTI_WORKER_H

void *aw__worker_main(void *worker);

#endif
