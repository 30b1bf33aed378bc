/* SPDX-License-Identifier: MIT
 *
 * awake/resolve.h: the addresses of a name.
 *
 *     aw_addr found[8];
 *     AW_AWAIT(self->resolve, aw_resolve(self->found, 8, "example.org", 80));     `out`: how many
 *
 * Asks the system (getaddrinfo: hosts file, name servers), on a thread for blocking calls. A numeric address is
 * answered at once and needs none. */
#ifndef AWAKE_RESOLVE_H
#define AWAKE_RESOLVE_H

#include <awake/addr.h>
#include <awake/async.h>
#include <awake/blocking.h>

AW_C_BEGIN

struct aw__lookup;

/* `out` is how many were found and stored, at least 1 and at most `max`, the one to try first first; or a negative errno:
 * -ENOENT: there is no such name, or it has no address; -EAGAIN: the name server did not answer, or no thread can be
 * started: try again later; -EIO: it answered with a failure; -EINVAL: that is no name; -ENODEV: no interface of that name
 * behind the '%' of a numeric address; -ENOMEM, -ENXIO outside a runtime.
 *
 * The name is borrowed until the first poll has returned. Cancelled it is gone at once: the thread is left to finish by
 * itself, with memory of its own. */
/* aw-future: aw_resolve */
typedef struct aw_resolve_future {
    AW_FRAME(int);
    aw_addr *to;
    int max;
    uint16_t port;
    const char *name;
    struct aw__lookup *lookup;            /* private, as all that follows */
    const struct aw_allocator *allocator; /* of `to`, with room for `max`, where all are wanted */
    aw_blocking_future job;
} aw_resolve_future;

AW_API extern const aw_future_type aw_type_aw_resolve_future;

AW_API aw_resolve_future aw_resolve(aw_addr *to, int max, const char *name, uint16_t port);

AW_C_END

#endif
