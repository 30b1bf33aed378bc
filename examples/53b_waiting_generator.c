/* SPDX-License-Identifier: MIT
 *
 * A generator that also waits: it fetches pages over a slow network, and yields their lines.
 *
 * Here AW_PENDING has two meanings: there is a line, or the generator itself waits. The frame tells
 * which, and poll_next translates: it is ready if there is a line, and pending only while the
 * generator waits. An event that the generator waits for wakes the task that awaits poll_next,
 * because both use the same context.
 *
 * Notice when the pages are fetched: when their first line is requested. The third never is. */
#include <awake.h>
#include <stdio.h>

/* ---- The generator --------------------------------------------------------------------------- */

/* Pending until the last line has been taken. It keeps no waker: poll_next polls it when the next
 * line is requested. */
static aw_poll taken(void *line, aw_cx *cx, int *out) {
    (void)cx, (void)out;
    return *(const char **)line ? AW_PENDING : AW_READY;
}

static int yield_line(const char **line, const char *text) {
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
            error = yield_line(&self->line, pages[page][i]);
    }
    printf("  the generator ends\n");
    return error;
}

/* ---- The consumer ---------------------------------------------------------------------------- */

/* Ready with 1 if there is a line, with 0 at the end. */
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
    /* The generator must end before its frame goes away, even if this fiber is being cancelled. In
     * that case `more` is negative: poll_next was cancelled, but the generator has not ended. */
    AW_SHIELD {
        if (more) aw_await(aw_poll_fn_of(poll_close, &lines));
    }
    return more < 0 ? more : 0;
}

int main(void) {
    return aw_run(AW_CALL(reader));
}
