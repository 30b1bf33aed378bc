// The errors about locals are for async functions only: ordinary code next to them may jump past
// an initialiser.
// MUST COMPILE
// flags: -Wpedantic -Werror
#include <awake.h>

AW_ASYNC(int, f, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

int open_it(int n);

static int ordinary(int n) {
    int result = -1;
    if (n < 0) goto out;
    int fd = open_it(n);
    result = fd;
out:
    return result;
}

static int maybe(int n) {
    int x;
    if (n > 0) x = open_it(n);
    if (n > 0) return x;
    return 0;
}

int main(void) {
    return aw_run(AW_CALL(f)) + ordinary(1) + maybe(2);
}
