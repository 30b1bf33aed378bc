// An unsigned output cannot carry an error: aw_await with a deadline.
// MUST FAIL
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

AW_FIBER(unsigned, count) {
    return 3;
}

AW_FIBER(int, f) {
    return (int)aw_await_by(AW_SEC(1), AW_CALL(count));
}

int main(void) {
    return aw_run(AW_CALL(f));
}
