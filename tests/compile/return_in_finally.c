// AW_RETURN in AW_FINALLY: the output is already decided.
// MUST FAIL
// gcc: error: .*AW_RETURN inside AW_FINALLY: the output is decided
// clang: error: .*AW_RETURN inside AW_FINALLY: the output is decided
#include <awake.h>

AW_ASYNC(int, f, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(1);
    AW_FINALLY;
    AW_RETURN(2);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
