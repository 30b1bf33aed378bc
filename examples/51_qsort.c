/* SPDX-License-Identifier: MIT
 *
 * A callback that waits, inside a function that knows nothing about it: qsort.
 *
 * Two cakes are compared by tasting them, which takes a while. qsort needs the result at once, as a
 * return value, and cannot be split up. In a fiber the comparison waits, with qsort below it on the
 * same stack, and the thread does other work meanwhile.
 *
 * qsort cannot be stopped half-way either. When its fiber is cancelled, every comparison returns 0
 * at once. qsort ends quickly, and the fiber checks aw_cancelled().
 *
 * Notice the small contest, which ends while the large one is still tasting, and the last contest,
 * which has too little time. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cake {
    const char *name;
    int sweetness;
};

static int taste(const void *left, const void *right) {
    const struct cake *a = left, *b = right;
    if (aw_cancelled()) return 0;
    if (aw_await(aw_sleep_for(AW_MSEC(5))) < 0) return 0;
    return (a->sweetness > b->sweetness) - (a->sweetness < b->sweetness);
}

AW_FIBER(int, contest, struct cake *cakes; size_t count;) {
    qsort(self->cakes, self->count, sizeof *self->cakes, taste);
    return aw_cancelled() ? -ECANCELED : 0;
}

static void print(const char *title, const struct cake *cakes, size_t count) {
    printf("%s:", title);
    for (size_t i = 0; i < count; i++)
        printf(" %s", cakes[i].name);
    printf("\n");
}

AW_FIBER(int, start) {
    struct cake dry[] = {{"stollen", 5}, {"scone", 1}, {"sponge", 4}, {"bread", 0}, {"rusk", 2}};
    struct cake wet[] = {{"trifle", 9}, {"tart", 6}, {"parfait", 8}};

    struct contest *a = aw_spawn(AW_CALL(contest, .cakes = dry, .count = 5));
    struct contest *b = aw_spawn(AW_CALL(contest, .cakes = wet, .count = 3));
    int error = 0;
    /* The contests borrow from this stack: join both, even if this fiber is cancelled. */
    AW_SHIELD {
        if (aw_await(aw_task_join(b)) == 0) print("the small contest", wet, 3);
        printf("the large contest is %s\n", aw_task_is_finished(a) ? "over" : "still tasting");
        if (aw_await(aw_task_join(a)) == 0) print("the large contest", dry, 5);
        aw_task_drop(a);
        aw_task_drop(b);

        error = aw_await_for(AW_MSEC(7), AW_CALL(contest, .cakes = dry, .count = 5));
        printf("with a limit of 7 ms: %s\n", strerror(-error));
    }
    return 0;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
