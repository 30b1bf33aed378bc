/* SPDX-License-Identifier: MIT
 *
 * The cold side of async functions: their child for backtraces, and what goes wrong at run time. */
#include <awake/async.h>

#include <inttypes.h>

#include "core/misuse.h"

const aw_future *aw__async_child(const aw_future *self, size_t i) {
    struct frame {
        AW_FRAME(int);
    };
    uint32_t at = ((const struct frame *)self)->aw_child;
    return i == 0 && at ? (const aw_future *)(const void *)((const char *)self + at) : NULL;
}

void aw__async_bad_state(const aw_future *self, const char *file) {
    aw__misuse("%s:%" PRIu32
               ": async function '%s' cannot resume here: an await inside a switch, or "
               "an overwritten frame",
               file, self->state & AW__LINE_MASK, self->type->name);
}

void aw__async_bad_await(const aw_future *self, const char *file, int line, bool outside) {
    if (outside)
        aw__misuse("%s:%d: async function '%s' awaits a future outside its frame", file, line,
                   self->type->name);
    aw__misuse("%s:%d: async function '%s' awaits in AW_FINALLY though it never started; ask "
               "AW_STARTED first",
               file, line, self->type->name);
}
