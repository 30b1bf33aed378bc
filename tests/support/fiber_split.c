/* SPDX-License-Identifier: MIT
 *
 * The bodies of fiber_split.h. */
#include "support/fiber_split.h"

#include <stdio.h>
#include <stdlib.h>

AW_FIBER_DEF(split_sum) {
    aw_fiber_yield();
    return (long)self->a + self->b;
}

static void split_line_discard(aw_future *f) {
    free(((struct split_line *)f)->out);
}

AW_FIBER_DEF(split_line, .discard = split_line_discard) {
    char *line = malloc(32);
    long sum = aw_await(split_sum(.a = self->n, .b = self->n));
    if (line) snprintf(line, 32, "%s%ld", self->mark ? self->mark : "", sum);
    free(self->mark);
    return line;
}
AW_FIBER_DROP(split_line) {
    free(self->mark);
}
