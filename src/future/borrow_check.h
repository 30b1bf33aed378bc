/* SPDX-License-Identifier: MIT
 *
 * The borrow check: objects that must be closed before their storage is freed, such as a scope with
 * children that borrow from its frame, or a generator that holds something. Each contains an
 * aw__borrow. While the object is open:
 *
 *   1. The mark of its aw__borrow is a word derived from the address of the mark. When a future
 *      ends, a scan of its memory finds the mark. A copy, an object that was there earlier, or
 *      other data is never mistaken for it.
 *   2. The task that polls the object counts it: during a poll in the meter, between polls in the
 *      task header. The count only tells whether a scan is worthwhile. It may be too high: when
 *      another task closes the object, the count of the first one does not change.
 *   3. It is misuse if a task, an async function or the future of block_on ends with a mark in its
 *      own memory. Memory elsewhere, such as a box, is not scanned: it may have another owner by
 *      now.
 *   4. The locals of a fiber that has returned cannot be scanned. So each fiber counts the open
 *      objects on its stack. An object is counted when it is opened by a poll on that stack, and
 *      uncounted when it is closed. Any thread may close it: the count is atomic.
 *
 * Not detected:
 *   - objects polled outside a task, by a custom executor or in aw_wait: there is no meter;
 *   - objects on the stack of a fiber that are first polled later, by a future that the fiber
 *     awaits;
 *   - objects inside a future of a generic type (timeout, join) in block_on: its size is not known
 *     there. */
#ifndef AW_FUTURE_BORROW_CHECK_H
#define AW_FUTURE_BORROW_CHECK_H

#include <awake/future.h>

static inline uintptr_t aw__borrow_mark(const aw__borrow *b) {
    return (uintptr_t)&b->mark ^ (uintptr_t)0x5c09e50a3e7d91b5u;
}

enum { AW__BORROW_TEXT = 2048 };

/* An open borrow in that memory, other than that of `self`; NULL if there is none. */
const aw__borrow *aw__borrow_find(const void *memory, size_t size, const aw_future *self);
/* Writes the await chain of the open object. */
void aw__borrow_describe(const aw__borrow *b, char text[AW__BORROW_TEXT]);

#endif
