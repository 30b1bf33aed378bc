/* SPDX-License-Identifier: MIT
 *
 * The inside of a channel: channel.c has the operations, channel_life.c begins and ends it. */
#ifndef AW_SYNC_CHANNEL_H
#define AW_SYNC_CHANNEL_H

#include "sync/back.h"
#include "sync/blocks.h"
#include "sync/waiters.h"

/* What has to be done when the lock is free. */
typedef struct aw__after {
    aw__wakes wakes;
    aw__block *blocks; /* to be freed */
} aw__after;

static inline void aw__after_begin(aw__after *a) {
    a->wakes.count = 0;
    a->blocks = NULL;
}

/* With the lock: let everybody go on who can, give the lock back, and do what has to be done after it. Only for what
 * waits the lock is taken again in between: then somebody else still has to end. */
void aw__channel_unlock(aw_channel *c, aw__after *a);

static inline bool aw__channel_drained(const aw_channel *c) {
    return c->flags & AW__CHANNEL_CLOSED && c->len == 0 && c->reserved == 0;
}

#endif
