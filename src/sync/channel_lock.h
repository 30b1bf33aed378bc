/* SPDX-License-Identifier: MIT
 *
 * Internals of a channel shared by channel.c (operations) and channel_life.c (construction, close,
 * reference counts). */
#ifndef AW_SYNC_CHANNEL_LOCK_H
#define AW_SYNC_CHANNEL_LOCK_H

#include "future/waiters.h"
#include "sync/channel_blocks.h"
#include "sync/channel_tail.h"

/* Work to do after the lock is released. */
typedef struct aw__deferred {
    aw__wakes wakes;
    aw__block *blocks; /* to free */
} aw__deferred;

static inline void aw__deferred_init(aw__deferred *d) {
    d->wakes.count = 0;
    d->blocks = NULL;
}

/* Locks the channel exclusively: rule 3 of channel_tail.h. */
static inline void aw__channel_lock(aw_channel *c) {
    aw__lock(&c->lock);
    if (aw__tail_is_open(c)) aw__tail_close(c);
}

/* Under the lock: serves the waiters that can proceed, releases the lock, and runs the deferred
 * work. Between batches it releases the lock and takes it again only if more waiters can proceed;
 * their waits keep the channel alive. */
void aw__channel_unlock(aw_channel *c, aw__deferred *d);

static inline bool aw__channel_drained(const aw_channel *c) {
    return c->flags & AW__CHANNEL_CLOSED && c->len == 0 && c->reserved == 0;
}

#endif
