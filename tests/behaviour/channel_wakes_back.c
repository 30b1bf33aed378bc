/* SPDX-License-Identifier: MIT
 *
 * The same with the back of the channel open wherever it may be (sync/back.h), however small the channel. */
#include "sync/channel.h"

#define PREPARE(c) aw__back_always(&(c)->channel)
#include "channel_wakes.c"
