/* SPDX-License-Identifier: MIT
 *
 * Looking for what was left open: see opened.h. By the thread that has polled what has just ended. */
#include "core/opened.h"

#include <awake/async.h>

#include "core/atomic.h"
#include "core/misuse.h"

typedef uintptr_t __attribute__((may_alias)) word;

/* The words are anything: also what other threads use, or nobody has written. */
__attribute__((no_sanitize("thread"))) const aw__open *aw__opened_find(const void *memory,
                                                                       size_t size,
                                                                       const aw_future *self) {
    uintptr_t at = ((uintptr_t)memory + sizeof(word) - 1) & ~(sizeof(word) - 1);
    uintptr_t end = (uintptr_t)memory + size;
    for (; at + sizeof(aw__open) <= end; at += sizeof(word)) {
        const aw__open *o = (const aw__open *)at;
        if (AW__UNLIKELY(aw__load_relaxed((const word *)at) == aw__open_mark(o)) && o->what != self)
            return o;
    }
    return NULL;
}

void aw__opened_describe(const aw__open *o, char text[AW__LEFT_TEXT]) {
    aw__text t = {text, AW__LEFT_TEXT, 0};
    aw__text_chain(&t, o->what, 1);
    aw__text_trim(&t);
}

static AW__COLD void bad_end(const aw_future *self, const aw__open *o, const char *file, int line) {
    char text[AW__LEFT_TEXT];
    aw__opened_describe(o, text);
    aw__misuse(
        "%s:%d: async function '%s' has ended while something in its frame was open: wait for "
        "it, cancel it or close it first\n%s",
        file, line, self->type->name, text);
}

/* Not before the members, which are all that a small frame has. */
void aw__async_check_left(const aw_future *self, size_t size, const char *file, int line) {
    enum { MEMBERS = 24 };
    if (size < MEMBERS + sizeof(aw__open)) return;
    const aw__open *o = aw__opened_find((const char *)self + MEMBERS, size - MEMBERS, self);
    if (AW__UNLIKELY(o != NULL)) bad_end(self, o, file, line);
}
