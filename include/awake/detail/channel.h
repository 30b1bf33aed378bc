/* SPDX-License-Identifier: MIT
 *
 * awake/detail/channel.h: private. How a channel stores its messages: src/sync/channel_blocks.h and
 * src/sync/channel_tail.h work on it. */
#ifndef AWAKE_DETAIL_CHANNEL_H
#define AWAKE_DETAIL_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

/* Consecutive messages, in order. */
typedef struct aw__block {
    struct aw__block *next;
    uint64_t number; /* of its first message */
    unsigned char *items;
    uint32_t head, count, slots;
} aw__block;

/* Where senders append without disturbing receivers. */
typedef struct aw__channel_tail {
    uint32_t lock;
    uint32_t free_slots; /* atomic: for further messages; 0 while it is closed */
    uint32_t pushed;     /* messages here, not counted in the channel */
    uint32_t next_slot;  /* for the next message */
    uint32_t slots;
    uint32_t min_free; /* it opens when this many slots are free */
    size_t size;
    unsigned char *items;
} aw__channel_tail;

#endif
