/* SPDX-License-Identifier: MIT
 *
 * A fiber that uses up its stack, and how large a stack should be.
 *
 * A stack has a fixed size, 256 KiB unless one asks for another. That is address space; memory is taken as
 * it is used, so a large one costs no more than a small one. Below each lies a guard: what overflows ends
 * the program instead of writing over something else, and with a message that names the fiber. The
 * handler of SIGSEGV that prints it is not installed where the program has its own.
 *
 * Before it comes to that one can measure: AW_FIBER_HIGH_WATER tells how deep the fibers of a definition
 * have ever been.
 *
 * Notice the message, and that the same input does no harm when the stack is large enough. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

/* How deep the brackets are nested, by a parser that calls itself for each. */
static int depth(const char **text) {
    char copy[64]; /* parsers have such things */
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
    printf("its stack was used for %s\n", used < 16384 ? "less than 16 KiB" : "more than 16 KiB");
    aw_fiber_measure(false);

    printf("evil, large stack: depth %d\n",
           aw_run(AW_CALL(parse, .text = evil, .stack_size = 64 << 20)));
    fflush(stdout);
    printf("evil: depth %d\n", aw_run(AW_CALL(parse, .text = evil)));
    return 0;
}
