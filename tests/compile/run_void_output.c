// aw_run with a void output, which cannot carry an error.
// MUST FAIL
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

AW_ASYNC(void, f) {
    AW_BEGIN;
    AW_RETURN_VOID;
    AW_END;
}

int main(void) {
    aw_run(AW_CALL(f));
}
