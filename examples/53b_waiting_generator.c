/* SPDX-License-Identifier: MIT
 *
 * A generator that also waits: it fetches pages over a slow network, and gives their lines one by one.
 *
 * Now AW_PENDING has two meanings: "here is a line", and "I am waiting myself". The frame says which, and
 * `next` translates: it is ready when there is a line, and pending only while the generator is. A wait in
 * the generator wakes whoever awaits `next`, because the context is handed down.
 *
 * Notice when the pages are fetched: only when their first line is wanted. The third never is. */
#include <awake.h>
#include <stdio.h>

/* ---- The generator -------------------------------------------------------------------------------- */

/* Pending for as long as the last line has not been taken. No waker is kept: it will be polled when
 * the next line is wanted. */
static aw_poll taken(void *line, aw_cx *cx, int *out) {
    (void)cx, (void)out;
    return *(const char **)line ? AW_PENDING : AW_READY;
}

static int give(const char **line, const char *text) {
    *line = text;
    return aw_await(aw_poll_fn_of(taken, line));
}

AW_FIBER(int, lines, const char *line;) {
    static const char *const pages[3][2] = {{"one", "two"}, {"three", "four"}, {"five", "six"}};
    int error = 0;
    for (int page = 0; page < 3 && !error; page++) {
        printf("  fetching page %d\n", page + 1);
        error = aw_await(aw_sleep_for(AW_MSEC(10)));
        for (int i = 0; i < 2 && !error; i++)
            error = give(&self->line, pages[page][i]);
    }
    printf("  the generator ends\n");
    return error;
}

/* ---- Taking from it ------------------------------------------------------------------------------- */

/* Ready with 1 when there is a line, with 0 when there are no more. */
static aw_poll poll_next(void *generator, aw_cx *cx, int *out) {
    struct lines *lines = generator;
    lines->line = NULL;
    aw_poll ended = aw_future_poll(&lines->future, cx);
    *out = ended == AW_PENDING;
    return ended == AW_PENDING && !lines->line ? AW_PENDING : AW_READY;
}

static aw_poll poll_close(void *generator, aw_cx *cx, int *out) {
    (void)out;
    return aw_future_cancel(&((struct lines *)generator)->future, cx) ? AW_READY : AW_PENDING;
}

AW_FIBER(int, reader) {
    struct lines lines = AW_CALL(lines);
    int n = 0, more;
    while ((more = aw_await(aw_poll_fn_of(poll_next, &lines))) > 0) {
        printf("%s\n", lines.line);
        if (++n == 3) break;
    }
    /* What was begun has to end before its frame goes away, also when this fiber is being cancelled:
     * then `more` is negative, and `next` was given up, but the generator is still there. */
    AW_SHIELD {
        if (more) aw_await(aw_poll_fn_of(poll_close, &lines));
    }
    return more < 0 ? more : 0;
}

int main(void) {
    return aw_run(AW_CALL(reader));
}
