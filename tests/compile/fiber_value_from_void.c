// The value of a fiber without an output. (clang does not compile it.)
// MUST COMPILE
// gcc: warning: 'return' with a value, in function returning void
// only: gcc
#include <awake.h>

AW_FIBER(void, f) {
    return 1;
}

int main(void) {
    return aw_run_status(AW_CALL(f));
}
