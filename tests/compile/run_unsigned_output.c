// aw_run with an unsigned output, which has no negative values.
// MUST FAIL
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

AW_ASYNC(unsigned, f) {
    AW_BEGIN;
    AW_RETURN(1);
    AW_END;
}

int main(void) {
    return (int)aw_run(AW_CALL(f));
}
