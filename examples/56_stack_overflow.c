/* SPDX-License-Identifier: MIT
 *
 * A fiber that overflows its stack, and how to choose the size of a stack.
 *
 * A stack has a fixed size, 256 KiB by default. That is address space: memory is taken as it is
 * used, so a large stack costs no more than a small one. Below each stack lies a guard. An overflow
 * ends the program, with a message that names the fiber, and never overwrites other memory. The
 * handler of SIGSEGV that prints the message is not installed if the program has its own.
 *
 * To choose a size, measure: AW_FIBER_HIGH_WATER returns the deepest stack use of all fibers of a
 * definition.
 *
 * Notice the message, and that the same input does no harm when the stack is large enough. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

/* How deep the brackets are nested. Recursive, like many parsers. */
static int depth(const char **text) {
    char copy[64]; /* a typical local buffer */
    int deepest = 0;
    while (**text == '[') {
        ++*text;
        snprintf(copy, sizeof copy, "%.10s", *text);
        int inner = depth(text);
        if (inner + 1 > deepest) deepest = inner + 1;
        if (**text == ']') ++*text;
    }
    return deepest;
}

AW_FIBER(int, parse, const char *text;) {
    aw_fiber_yield();
    return depth(&self->text);
}

int main(void) {
    enum { NESTED = 10000 };
    static char evil[2 * NESTED + 1];
    memset(evil, '[', NESTED);
    memset(evil + NESTED, ']', NESTED);

    aw_fiber_measure(true);
    printf("harmless: depth %d\n", aw_run(AW_CALL(parse, .text = "[[][[][[[]]]]]")));
    size_t used = AW_FIBER_HIGH_WATER(parse);
    printf("it used %s of its stack\n", used < 16384 ? "less than 16 KiB" : "more than 16 KiB");
    aw_fiber_measure(false);

    printf("evil, large stack: depth %d\n",
           aw_run(AW_CALL(parse, .text = evil, .stack_size = 64 << 20)));
    fflush(stdout);
    printf("evil: depth %d\n", aw_run(AW_CALL(parse, .text = evil)));
    return 0;
}
