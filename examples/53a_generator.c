/* SPDX-License-Identifier: MIT
 *
 * A generator: a function that stops at each value, and continues when the next one is requested.
 *
 * This one walks a tree, and stops in the middle of the recursion. Done step by step, that needs an
 * explicit stack; a fiber has one. It needs no runtime: the consumer polls. AW_PENDING means that
 * there is a value, AW_READY that there are no more. The generator waits for no event, so the waker
 * does nothing.
 *
 * Notice the second walk. It is cancelled half-way: its yield returns -ECANCELED, the recursion
 * returns, and the walk frees what it holds. */
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
    char *notes = malloc(100); /* any resource that the generator holds */
    int error = visit(self->tree, &self->value);
    printf(error ? "(cancelled)\n" : "(no more)\n");
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
