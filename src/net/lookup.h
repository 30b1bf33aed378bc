/* SPDX-License-Identifier: MIT */
#ifndef AW_NET_LOOKUP_H
#define AW_NET_LOOKUP_H

#include <awake/alloc.h>
#include <awake/resolve.h>

/* All addresses of a name. `to` is allocated for `max` entries, and belongs to the caller if `out`
 * is positive. */
aw_resolve_future aw__resolve_all(const aw_allocator *a, const char *name, uint16_t port);

#endif
