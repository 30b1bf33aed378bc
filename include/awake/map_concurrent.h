/* SPDX-License-Identifier: MIT
 *
 * awake/map_concurrent.h: a future for each item of a stream, one at a time or several at once.
 *
 *     AW_MAP_ASYNC(struct fetch, fetch_it, const char *) { return AW_CALL(fetch, .url = *item); }
 *     self->pages = AW_ADAPTER(fetch_it, &self->urls);              one at a time, no allocation
 *
 *     AW_CONCURRENT(struct fetch, fetch_all, const char *) { return AW_CALL(fetch, .url = *item); }
 *     self->pages = AW_BUFFERED(fetch_all, &self->urls, 10);        ten at once, in source order
 *     self->pages = AW_UNORDERED(fetch_all, &self->urls, 10);       ten at once, as they finish
 *
 * The items are the outputs of the futures. The body makes a future from an item, as in AW_MAP, and
 * copies what it needs of the item. The futures run while a `next` waits; in between they pause,
 * and are not lost. For a for-each with a limit, drain the stream: all futures run until the last
 * has ended.
 *
 *     AW_AWAIT(self->all, aw_stream_drain(&self->pages));
 *
 * With `.errors = true`, as in AW_UNORDERED(fetch_all, &self->urls, 10, .errors = true), a negative
 * output is an error of the stream: a drain then stops and cancels the rest.
 *
 * The first `next` of AW_BUFFERED or AW_UNORDERED allocates memory for all futures: -ENOMEM, and
 * nothing has been taken from the source; -EINVAL: the limit is 0. Only futures that were woken are
 * polled. Close the stream, or run it to its end, before its frame ends. A close cancels futures in
 * flight and discards outputs that were not taken. */
#ifndef AWAKE_MAP_CONCURRENT_H
#define AWAKE_MAP_CONCURRENT_H

#include <awake/detail/map_concurrent.h>
#include <awake/stream.h>

#define AW_MAP_ASYNC(F, ...)  AW__MAP_ASYNC(F, __VA_ARGS__)
#define AW_CONCURRENT(F, ...) AW__CONCURRENT(F, __VA_ARGS__)
#define AW_BUFFERED(...)      AW__CONCURRENTLY(__VA_ARGS__, .ordered = true, )
#define AW_UNORDERED(...)     AW__CONCURRENTLY(__VA_ARGS__, .ordered = false, )

#endif
