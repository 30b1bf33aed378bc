// A plain return of a value instead of AW_RETURN.
// MUST FAIL
// gcc: error: incompatible types when returning type 'int' but 'aw__step'
// clang: error: returning 'int' from a function with incompatible result type 'aw__step'
#include <awake.h>

AW_ASYNC(int, f, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    return 1;
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
