/* SPDX-License-Identifier: MIT
 *
 * The options of a runtime: as the program sets them, and where it does not, as the environment
 * does. */
#ifndef AW_SCHED_OPTIONS_H
#define AW_SCHED_OPTIONS_H

#include <awake/runtime.h>

/* Copies the program's options, which may be NULL or of an older version. 0, -EINVAL, or
 * -ENOTSUP. */
int aw__options_copy(aw_runtime_options *o, const aw_runtime_options *options);

/* Sets the flavour and the numbers of threads that are not set. Uses the runtime's log. */
void aw__options_settle(aw_runtime_options *o, const aw_runtime *rt);
/* The type of driver. NULL: the options name one that does not exist. */
const struct aw__driver_type *aw__options_driver(const aw_runtime_options *o, const aw_runtime *rt);

#endif
