/* SPDX-License-Identifier: MIT
 *
 * What has to be over before the memory goes away that it lies in: a scope whose children borrow, a generator that holds
 * something. Each has an aw__open, and while it is open:
 *
 *   1. Its mark is a word made of its own address. So it can be found by looking through the memory of who ends, and
 *      neither a copy of it, nor one that lay there before, nor anything else is taken for it.
 *   2. The task that polls it counts it, between two polls in its header, in a poll in the meter. The count only tells who
 *      ends whether it is worth while to look. It may be too high: what a task has opened may be ended by another, who then
 *      does not touch the count.
 *   3. The end of a task, of an async function and of the future of block_on is a misuse when there is a mark in its own
 *      memory, and only then: what lies elsewhere, in a box, may be in other hands by now.
 *   4. The locals of a fiber that has returned cannot be looked at. So a fiber counts what lies on its stack, when it is
 *      opened by a poll on that stack; whoever ends it counts it out: atomic.
 *
 * What is not seen: what is polled by a hand-made executor or a waiting thread (aw_wait) outside a task, which has no
 * meter; what first is polled, later, by a future that a fiber waits for, when it lies on that fiber's stack; and a future
 * of a generic type (a timeout, a join) in block_on, whose size is not known there. */
#ifndef AW_CORE_OPENED_H
#define AW_CORE_OPENED_H

#include <awake/future.h>

static inline uintptr_t aw__open_mark(const aw__open *o) {
    return (uintptr_t)&o->mark ^ (uintptr_t)0x5c09e50a3e7d91b5u;
}

enum { AW__LEFT_TEXT = 2048 };

/* Something open in that memory, other than `self`; NULL: there is nothing. */
const aw__open *aw__opened_find(const void *memory, size_t size, const aw_future *self);
/* Its chain. */
void aw__opened_describe(const aw__open *o, char text[AW__LEFT_TEXT]);

#endif
