/* SPDX-License-Identifier: MIT
 *
 * A set of futures that yields each result as soon as it is there.
 *
 * join_all gives its results when the last has come. A set gives them in the order in which they come,
 * and it can grow meanwhile: here a download that failed is tried again. Only those that were woken are
 * polled, so a large set costs no more than a small one.
 *
 * Notice the order, and that AW_FINALLY empties the set: should this function be cancelled half-way, so
 * are the downloads. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

AW_ASYNC(int, download, int n; int attempt; aw_sleep net;) {
    AW_BEGIN;
    AW_AWAIT(self->net, aw_sleep_for(AW_MSEC(10 * self->n * self->n)));
    if (self->n == 1 && self->attempt == 1) AW_RETURN(-ECONNRESET);
    AW_RETURN(self->n * 1000);
    AW_END;
}

AW_ASYNC(int, start, aw_set set; aw_set_next_future next; aw_set_clear_future clear; int error;) {
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
