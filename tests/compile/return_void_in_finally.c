// AW_RETURN_VOID in AW_FINALLY, in a function without an output.
// MUST FAIL
// gcc: error: .*AW_RETURN inside AW_FINALLY: the output is decided
// clang: error: .*AW_RETURN inside AW_FINALLY: the output is decided
#include <awake.h>

AW_ASYNC(void, f, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_FINALLY;
    AW_RETURN_VOID;
    AW_END;
}

int main(void) {
    return aw_run_status(AW_CALL(f));
}
