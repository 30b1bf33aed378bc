/* SPDX-License-Identifier: MIT
 *
 * A callback that waits, in the middle of a function that knows nothing of it: qsort.
 *
 * The cakes are judged by tasting two at a time, which takes a while. qsort wants its answer at once, as
 * a return value, and cannot be taken apart. In a fiber it need not be: the comparison waits, with qsort
 * below it on the same stack, and the thread does something else meanwhile.
 *
 * qsort cannot be left half-way either. When its fiber is cancelled the judge stops tasting and calls
 * everything equal; qsort comes to its end quickly, and the fiber looks at aw_cancelled().
 *
 * Notice the other contest, which goes on while the first one tastes, and the second time the one that is
 * given too little time. */
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
    /* The contests borrow this stack, so both are waited for, whatever happens. */
    AW_SHIELD {
        if (aw_await(aw_task_join(b)) == 0) print("the small contest", wet, 3);
        printf("the large one is %s\n", aw_task_is_finished(a) ? "over" : "still tasting");
        if (aw_await(aw_task_join(a)) == 0) print("the large contest", dry, 5);
        aw_task_drop(a);
        aw_task_drop(b);

        error = aw_await_for(AW_MSEC(7), AW_CALL(contest, .cakes = dry, .count = 5));
        printf("seven milliseconds for it: %s\n", strerror(-error));
    }
    return 0;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
