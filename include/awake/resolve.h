/* SPDX-License-Identifier: MIT
 *
 * awake/resolve.h: the addresses of a name.
 *
 *     aw_addr found[8];
 *     AW_AWAIT(self->resolve, aw_resolve(self->found, 8, "example.org", 80));     `out`: how many
 *
 * Calls getaddrinfo (hosts file, name servers) on a thread for blocking calls. A numeric address is
 * answered at once, without a thread. */
#ifndef AWAKE_RESOLVE_H
#define AWAKE_RESOLVE_H

#include <awake/addr.h>
#include <awake/async.h>
#include <awake/blocking.h>

AW_C_BEGIN

struct aw__lookup;

/* `out` is the number of addresses stored, 1 to `max`, best first; or a negative errno: -ENOENT: no
 * such name, or it has no address; -EAGAIN: no answer from the name server, or no thread can be
 * started: try later; -EIO: the name server failed; -EINVAL: not a name; -ENODEV: no interface of
 * the name after '%' in a numeric address; -ENOMEM; -ENXIO: outside a runtime.
 *
 * The name is borrowed until the first poll has returned. A cancel ends it at once; the thread
 * finishes on its own, with memory of its own. */
/* aw-future: aw_resolve */
typedef struct aw_resolve_future {
    AW_FRAME(int);
    aw_addr *to;
    int max;
    uint16_t port;
    const char *name;
    struct aw__lookup *lookup;            /* private, like all below */
    const struct aw_allocator *allocator; /* of `to`, if all addresses are wanted */
    aw_blocking_future job;
} aw_resolve_future;

AW_API extern const aw_future_type aw_type_aw_resolve_future;

AW_API aw_resolve_future aw_resolve(aw_addr *to, int max, const char *name, uint16_t port);

AW_C_END

#endif
