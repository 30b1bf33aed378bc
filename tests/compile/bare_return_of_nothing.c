// A plain return without a value.
// MUST FAIL
// gcc: error: 'return' with no value, in function returning non-void
// clang: error: non-void function .* should return a value
#include <awake.h>

AW_ASYNC(void, f, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    return;
    AW_END;
}

int main(void) {
    return aw_run_status(AW_CALL(f));
}
