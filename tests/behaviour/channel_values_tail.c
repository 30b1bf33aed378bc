/* SPDX-License-Identifier: MIT
 *
 * channel_values.c with the tail of the channel open whenever the protocol allows it
 * (sync/channel_tail.h), at any capacity. */
#include "sync/channel_lock.h"

#define PREPARE(c) aw__tail_always(&(c)->channel)
#include "channel_values.c"
