// A pointer cannot carry an error: use aw_await_into.
// MUST FAIL
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

AW_FIBER(char *, text) {
    return 0;
}

AW_FIBER(int, f) {
    return aw_await(AW_CALL(text)) != 0;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
