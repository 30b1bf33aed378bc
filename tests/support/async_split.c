/* SPDX-License-Identifier: MIT
 *
 * The bodies of async_split.h. */
#include "support/async_split.h"

#include <stdio.h>
#include <stdlib.h>

AW_ASYNC_DEF(split_add) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN((long)self->a + self->b);
    AW_END;
}

static void split_text_discard(aw_future *f) {
    free(((struct split_text *)f)->out);
}

AW_ASYNC_DEF(split_text, .discard = split_text_discard) {
    AW_BEGIN;
    AW_AWAIT(self->add, split_add(.a = self->n, .b = self->n));
    char *text = malloc(32);
    if (text) snprintf(text, 32, "%ld", self->add.out);
    AW_RETURN(text);
    AW_END;
}
