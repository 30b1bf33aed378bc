/* SPDX-License-Identifier: MIT
 *
 * Scans memory for open borrows: see borrow_check.h. Called when a future has ended, by the thread
 * that polled it. */
#include "future/borrow_check.h"

#include <awake/async.h>

#include "base/atomic.h"
#include "base/misuse.h"
#include "base/text.h"
#include "future/chain.h"

typedef uintptr_t __attribute__((may_alias)) word;

/* The memory may hold anything, including uninitialised words and words that other threads
 * write. */
__attribute__((no_sanitize("thread"))) const aw__borrow *aw__borrow_find(const void *memory,
                                                                         size_t size,
                                                                         const aw_future *self) {
    uintptr_t at = ((uintptr_t)memory + sizeof(word) - 1) & ~(sizeof(word) - 1);
    uintptr_t end = (uintptr_t)memory + size;
    for (; at + sizeof(aw__borrow) <= end; at += sizeof(word)) {
        const aw__borrow *b = (const aw__borrow *)at;
        if (AW__UNLIKELY(aw__load_relaxed((const word *)at) == aw__borrow_mark(b)) &&
            b->what != self)
            return b;
    }
    return NULL;
}

void aw__borrow_describe(const aw__borrow *b, char text[AW__BORROW_TEXT]) {
    aw__text t = {text, AW__BORROW_TEXT, 0};
    aw__text_chain(&t, b->what, 1);
    aw__text_trim(&t);
}

static AW__COLD void borrow_bad_end(const aw_future *self, const aw__borrow *b, const char *file,
                                    int line) {
    char text[AW__BORROW_TEXT];
    aw__borrow_describe(b, text);
    aw__misuse(
        "%s:%d: async function '%s' has ended while something in its frame was open: wait for "
        "it, cancel it or close it first\n%s",
        file, line, self->type->name, text);
}

/* Scans only the members: the head of a frame holds no borrow, and in a small frame none fits. */
void aw__async_borrow_check(const aw_future *self, size_t size, const char *file, int line) {
    enum { MEMBERS = 24 };
    if (size < MEMBERS + sizeof(aw__borrow)) return;
    const aw__borrow *b = aw__borrow_find((const char *)self + MEMBERS, size - MEMBERS, self);
    if (AW__UNLIKELY(b != NULL)) borrow_bad_end(self, b, file, line);
}
