// A floating-point output cannot carry an error: it would look like a value.
// MUST FAIL
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

AW_FIBER(double, half) {
    return 0.5;
}

AW_FIBER(int, f) {
    return (int)aw_await(AW_CALL(half));
}

int main(void) {
    return aw_run(AW_CALL(f));
}
