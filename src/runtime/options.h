/* SPDX-License-Identifier: MIT
 *
 * What a runtime is to be like: as the program says, and where it leaves that open, as the environment says. */
#ifndef AW_RUNTIME_OPTIONS_H
#define AW_RUNTIME_OPTIONS_H

#include <awake/runtime.h>

/* A copy of what the program gives, which may be NULL or older than us. 0, -EINVAL, or -ENOTSUP. */
int aw__options_copy(aw_runtime_options *o, const aw_runtime_options *given);

/* Flavour and numbers of threads where they are open. The runtime has its log by now. */
void aw__options_settle(aw_runtime_options *o, const aw_runtime *rt);
/* How it waits for descriptors. NULL: the options name something that does not exist. */
const struct aw__driver_type *aw__options_driver(const aw_runtime_options *o, const aw_runtime *rt);

/* A struct that begins with its size, and may be older or newer than ours: what both know. False: that size
 * makes no sense, or it has more than we know. */
bool aw__copy_sized(void *to, size_t size, const void *from);

#endif
