// A void output cannot carry an error.
// MUST FAIL
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

AW_FIBER(void, nothing) {}

AW_FIBER(int, f) {
    aw_await(AW_CALL(nothing));
    return 0;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
