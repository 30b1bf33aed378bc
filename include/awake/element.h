/* SPDX-License-Identifier: MIT
 *
 * awake/element.h: elements of channels, broadcasts and watches.
 *
 * Elements are copied as bytes. If they own something, you set a function that releases an element
 * that is not taken and, if each receiver gets its own, one that clones it. */
#ifndef AWAKE_ELEMENT_H
#define AWAKE_ELEMENT_H

#include <awake/config.h>

AW_C_BEGIN

/* Release what the element at `item` owns. Called on any thread, never under a lock: it may use the
 * channel. */
typedef void aw_release_fn(void *item);
/* Make `*to` a second owner of what `*from` owns. Called under the lock of the channel: keep it
 * short (count a reference), and do not use the channel in it. */
typedef void aw_clone_fn(void *to, const void *from);

AW_C_END

#endif
