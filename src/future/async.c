/* SPDX-License-Identifier: MIT
 *
 * Cold paths of async functions: the child for backtraces, misuse, and awaits during a cancel. */
#include <awake/async.h>
#include <awake/task.h>

#include <errno.h>
#include <inttypes.h>

#include "base/misuse.h"

const aw_future *aw__async_child(const aw_future *self, size_t i) {
    struct __attribute__((may_alias)) frame {
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
    aw__misuse("%s:%d: async function '%s' awaits in AW_FINALLY though it never started: "
               "check AW_STARTED first",
               file, line, self->type->name);
}

void aw__async_bad_storage(const aw_future *child, const char *file, int line) {
    aw__misuse("%s:%d: this await overwrites future '%s', which is still running: await or cancel "
               "it first",
               file, line, child->type->name);
}

void aw__async_bad_fail(const aw_future *self, const char *file, int line) {
    aw__misuse("%s:%d: AW_FAIL in async function '%s', which is awaited by cleanup: cleanup cannot "
               "fail the task",
               file, line, self->type->name);
}

aw_poll aw__await_cancelling(aw_future *self, aw_future *child, aw_cx *cx, const char *file,
                             int line) {
    if (self->state & AW__NO_AWAIT) aw__async_bad_await(self, file, line, false);
    if (!aw__async_cut_here(self)) return aw__poll_at(child, cx, file, line);
    aw_poll r = aw__cancel_at(child, cx, file, line);
    if (r == AW_CANCELLED) self->state |= AW__CUT;
    return r;
}

/* ---- Failing a task ---------------------------------------------------------------------------
 * */

int aw_fail(aw_cx *cx, int code) {
    if (!cx->runtime || !cx->meter) return -ENXIO;
    if (code >= 0 || code < -4095) return -EINVAL;
    if (!cx->meter->fail) cx->meter->fail = code; /* checked after the poll */
    return 0;
}

void aw__fail(aw_cx *cx, int code, const char *file, int line) {
    int error = aw_fail(cx, code);
    if (error == -ENXIO) aw__misuse("%s:%d: AW_FAIL outside a task of a runtime", file, line);
    if (error) aw__misuse("%s:%d: AW_FAIL(%d): not a negative errno", file, line, code);
}
