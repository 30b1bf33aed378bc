/* SPDX-License-Identifier: MIT
 *
 * A set of futures that returns each result as soon as it is available.
 *
 * join_all ends when the last result is available. A set returns results in the order in which they
 * arrive, and it can grow meanwhile: here a failed download is tried again. A wake polls only the
 * futures that were woken, so its cost does not depend on the size of the set.
 *
 * Notice the order, and that AW_FINALLY clears the set: if this function is cancelled half-way, the
 * downloads are cancelled too. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

struct download {
    AW_FRAME(int);
    int n, attempt;
    aw_sleep net;
};
AW_ASYNC_STATIC(download) {
    AW_BEGIN;
    AW_AWAIT(self->net, aw_sleep_for(AW_MSEC(10 * self->n * self->n)));
    if (self->n == 1 && self->attempt == 1) AW_RETURN(-ECONNRESET);
    AW_RETURN(self->n * 1000);
    AW_END;
}

struct start {
    AW_FRAME(int);
    aw_set set;
    aw_set_next_future next;
    aw_set_clear_future clear;
    int error;
};
AW_ASYNC_STATIC(start) {
    AW_BEGIN;
    aw_set_init(&self->set, sizeof(struct download));
    for (int n = 5; n >= 1 && !self->error; n -= 2)
        self->error = aw_set_push(&self->set, AW_CALL(download, .n = n, .attempt = 1));

    while (self->set.count && !self->error) {
        AW_AWAIT(self->next, aw_set_next(&self->set));
        struct download *done = AW_SET_AS(struct download, &self->next);
        printf("download %d, attempt %d: %d\n", done->n, done->attempt, done->out);
        if (done->out < 0)
            self->error = aw_set_push(&self->set, AW_CALL(download, .n = done->n, .attempt = 2));
    }
    AW_RETURN(self->error);
    AW_FINALLY;
    if (AW_STARTED) AW_AWAIT(self->clear, aw_set_clear(&self->set));
    aw_set_free(&self->set);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
