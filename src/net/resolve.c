/* SPDX-License-Identifier: MIT
 *
 * Look up names on a thread for blocking calls. The lookup is referenced by the future and by that
 * thread, and the last one frees it: a cancelled lookup runs on, perhaps longer than the runtime.
 * So its memory comes from the heap, like the result of getaddrinfo. */
#define _GNU_SOURCE
#include "net/lookup.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>

#include "base/allocate.h"
#include "base/atomic.h"

enum { NAME_LENGTH_MAX = 254 /* with a final dot */ };

typedef struct aw__lookup {
    uint32_t refs; /* atomic */
    struct addrinfo *found;
    char name[NAME_LENGTH_MAX + 1];
} lookup;

static void lookup_unref(void *arg) {
    lookup *l = arg;
    if (!l || aw__fetch_sub(&l->refs, 1u) != 1) return;
    if (l->found) freeaddrinfo(l->found);
    aw__free(&aw__heap, l, sizeof *l);
}

static int errno_of(int code) {
    switch (code) {
    case 0: return 0;
    case EAI_AGAIN: return -EAGAIN;
    case EAI_MEMORY: return -ENOMEM;
    case EAI_SYSTEM: return errno ? -errno : -EIO;
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
    case EAI_NONAME: return -ENOENT;
    default: return -EIO;
    }
}

static long lookup_run(void *arg) {
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    lookup *l = arg;
    return errno_of(getaddrinfo(l->name, NULL, &hints, &l->found));
}

/* Allocates `lookup` with two references: 0 or a negative errno. */
static int lookup_new(aw_resolve_future *self) {
    size_t length = strnlen(self->name, NAME_LENGTH_MAX + 1);
    if (length == 0 || length > NAME_LENGTH_MAX) return -EINVAL;
    lookup *l = aw__alloc(&aw__heap, sizeof *l);
    if (!l) return -ENOMEM;
    l->refs = 2;
    l->found = NULL;
    memcpy(l->name, self->name, length + 1);
    self->lookup = l;
    return 0;
}

/* Allocates `to` for `count` addresses, if all are wanted (aw__resolve_all). */
static bool resolve_alloc(aw_resolve_future *self, int count) {
    if (!self->allocator) return true;
    self->to = aw__alloc(self->allocator, (size_t)count * sizeof(aw_addr));
    self->max = count;
    return self->to;
}

static void resolve_free(aw_resolve_future *self) {
    if (self->allocator && self->to)
        aw__free(self->allocator, self->to, (size_t)self->max * sizeof(aw_addr));
    if (self->allocator) self->to = NULL;
}

static void resolve_discard(aw_future *f) {
    resolve_free((aw_resolve_future *)f);
}

/* Stores a numeric address: 1. -EINVAL: the name is not numeric. */
static int store_numeric(aw_resolve_future *self) {
    aw_addr numeric;
    int error = aw_addr_of_ip(&numeric, self->name, self->port);
    if (!error && !resolve_alloc(self, 1)) error = -ENOMEM;
    if (error) return error; /* also -ENODEV: no such interface */
    self->to[0] = numeric;
    return 1;
}

/* The number of addresses stored, or a negative errno. */
static int store_found(aw_resolve_future *self) {
    int n = 0, count = 0;
    for (const struct addrinfo *i = self->lookup->found; i; i = i->ai_next)
        count++;
    if (count == 0) return -ENOENT;
    if (!resolve_alloc(self, count)) return -ENOMEM;
    for (const struct addrinfo *i = self->lookup->found; i && n < self->max; i = i->ai_next) {
        if (aw_addr_of_sockaddr(&self->to[n], i->ai_addr, i->ai_addrlen)) continue;
        aw_addr_set_port(&self->to[n++], self->port);
    }
    if (n == 0) resolve_free(self);
    return n ? n : -ENOENT;
}

AW_ASYNC_DEF(aw_resolve_future, .discard = resolve_discard) {
    AW_BEGIN;
    if ((!self->allocator && (!self->to || self->max <= 0)) || !self->name) AW_RETURN(-EINVAL);
    self->out = store_numeric(self);
    if (self->out != -EINVAL) AW_RETURN(self->out);
    self->out = lookup_new(self);
    if (self->out < 0) AW_RETURN(self->out);
    AW_AWAIT(self->job, aw_blocking_owned(lookup_run, lookup_unref, self->lookup));
    if (self->job.out < 0) AW_RETURN((int)self->job.out);
    AW_RETURN(store_found(self));
    AW_FINALLY;
    lookup_unref(self->lookup);
    AW_END;
}

aw_resolve_future aw__resolve_all(const aw_allocator *a, const char *name, uint16_t port) {
    return AW_CALL(aw_resolve_future, .allocator = a, .name = name, .port = port);
}

aw_resolve_future aw_resolve(aw_addr *to, int max, const char *name, uint16_t port) {
    return AW_CALL(aw_resolve_future, .to = to, .max = max, .name = name, .port = port);
}
