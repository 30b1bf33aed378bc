/* SPDX-License-Identifier: MIT
 *
 * Looking names up on a thread for blocking calls. What is asked and found belongs to the future and to the thread, and the
 * last one frees it: a lookup that was given up goes on by itself, maybe longer than the runtime. So its memory is from the
 * heap, as is what the system finds. */
#define _GNU_SOURCE
#include "net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>

#include "core/alloc.h"
#include "core/atomic.h"

enum { NAME_MOST = 254 /* with a dot at the end */ };

typedef struct aw__lookup {
    uint32_t refs; /* atomic */
    struct addrinfo *found;
    char name[NAME_MOST + 1];
} lookup;

static void drop_lookup(void *arg) {
    lookup *l = arg;
    if (!l || aw__fetch_sub(&l->refs, 1u) != 1) return;
    if (l->found) freeaddrinfo(l->found);
    aw__release(&aw__heap, l, sizeof *l);
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

static long look_up(void *arg) {
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    lookup *l = arg;
    return errno_of(getaddrinfo(l->name, NULL, &hints, &l->found));
}

/* The lookup for a name, for two; 0 or a negative errno. */
static int make(aw_resolve_future *self) {
    size_t length = strnlen(self->name, NAME_MOST + 1);
    if (length == 0 || length > NAME_MOST) return -EINVAL;
    lookup *l = aw__alloc(&aw__heap, sizeof *l);
    if (!l) return -ENOMEM;
    l->refs = 2;
    l->found = NULL;
    memcpy(l->name, self->name, length + 1);
    self->lookup = l;
    return 0;
}

/* Where all are wanted, and there are so many. */
static bool make_room(aw_resolve_future *self, int count) {
    if (!self->allocator) return true;
    self->to = aw__alloc(self->allocator, (size_t)count * sizeof(aw_addr));
    self->max = count;
    return self->to;
}

static void drop_room(aw_resolve_future *self) {
    if (self->allocator && self->to)
        aw__release(self->allocator, self->to, (size_t)self->max * sizeof(aw_addr));
    if (self->allocator) self->to = NULL;
}

static void resolve_discard(aw_future *f) {
    drop_room((aw_resolve_future *)f);
}

/* One, if the name is a number; -EINVAL: it is not. */
static int take_number(aw_resolve_future *self) {
    aw_addr number;
    int error = aw_addr_of_ip(&number, self->name, self->port);
    if (!error && !make_room(self, 1)) error = -ENOMEM;
    if (error) return error; /* also: an address, of an interface that is not there */
    self->to[0] = number;
    return 1;
}

/* How many are stored; or a negative errno. */
static int take(aw_resolve_future *self) {
    int n = 0, count = 0;
    for (const struct addrinfo *i = self->lookup->found; i; i = i->ai_next)
        count++;
    if (count == 0) return -ENOENT;
    if (!make_room(self, count)) return -ENOMEM;
    for (const struct addrinfo *i = self->lookup->found; i && n < self->max; i = i->ai_next) {
        if (aw_addr_of_sockaddr(&self->to[n], i->ai_addr, i->ai_addrlen)) continue;
        aw_addr_set_port(&self->to[n++], self->port);
    }
    if (n == 0) drop_room(self);
    return n ? n : -ENOENT;
}

AW_ASYNC_DEF(aw_resolve_future, .discard = resolve_discard) {
    AW_BEGIN;
    if ((!self->allocator && (!self->to || self->max <= 0)) || !self->name) AW_RETURN(-EINVAL);
    self->out = take_number(self);
    if (self->out != -EINVAL) AW_RETURN(self->out);
    self->out = make(self);
    if (self->out < 0) AW_RETURN(self->out);
    AW_AWAIT(self->job, aw_blocking_owned(look_up, drop_lookup, self->lookup));
    if (self->job.out < 0) AW_RETURN((int)self->job.out);
    AW_RETURN(take(self));
    AW_FINALLY;
    drop_lookup(self->lookup);
    AW_END;
}

aw_resolve_future aw__resolve_all(const aw_allocator *a, const char *name, uint16_t port) {
    return AW_CALL(aw_resolve_future, .allocator = a, .name = name, .port = port);
}

aw_resolve_future aw_resolve(aw_addr *to, int max, const char *name, uint16_t port) {
    return AW_CALL(aw_resolve_future, .to = to, .max = max, .name = name, .port = port);
}
