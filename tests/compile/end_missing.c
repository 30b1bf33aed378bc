// AW_END forgotten.
// MUST FAIL
// gcc: error: expected declaration or statement at end of input
// clang: error: expected '}'
#include <awake.h>

AW_ASYNC(int, f, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(1);
}

int main(void) {
    return aw_run(AW_CALL(f));
}
