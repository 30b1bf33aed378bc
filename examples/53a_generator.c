/* SPDX-License-Identifier: MIT
 *
 * A generator: a function that stops at each value, and goes on when the next one is wanted.
 *
 * Here it walks a tree, and stops in the middle of the recursion. To do that in steps, by hand, takes a
 * stack of one's own; a fiber has one. It needs no runtime: who wants a value polls. AW_PENDING means that
 * there is one, AW_READY that there are no more. Nobody waits for a wake, so the waker does nothing.
 *
 * Notice the second walk. Nobody wants the rest of it, so it is cancelled: its yield returns
 * -ECANCELED, the recursion comes back up, and the walk gives back what it holds. */
#include <awake.h>
#include <stdio.h>
#include <stdlib.h>

struct tree {
    const struct tree *left, *right;
    int value;
};

static int visit(const struct tree *tree, int *value) {
    if (!tree) return 0;
    int error = visit(tree->left, value);
    if (error) return error;
    *value = tree->value;
    error = aw_fiber_yield();
    if (error) return error;
    return visit(tree->right, value);
}

AW_FIBER(int, walk, const struct tree *tree; int value;) {
    char *notes = malloc(100); /* whatever a generator needs while it is alive */
    int error = visit(self->tree, &self->value);
    printf(error ? "(given up)\n" : "(no more)\n");
    free(notes);
    return error;
}

int main(void) {
    static const struct tree one = {NULL, NULL, 1}, three = {NULL, NULL, 3}, five = {NULL, NULL, 5},
                             two = {&one, &three, 2}, four = {&two, &five, 4};
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);

    struct walk all = AW_CALL(walk, .tree = &four);
    while (aw_future_poll(&all.future, &cx) == AW_PENDING)
        printf("%d\n", all.value);

    struct walk some = AW_CALL(walk, .tree = &four);
    while (aw_future_poll(&some.future, &cx) == AW_PENDING) {
        printf("%d\n", some.value);
        if (some.value == 2) {
            printf("enough\n");
            aw_future_cancel(&some.future, &cx);
            break;
        }
    }
    return 0;
}
