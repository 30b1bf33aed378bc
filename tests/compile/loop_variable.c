// A loop variable across an await: it belongs in the frame.
// MUST FAIL
// gcc: error: switch jumps over variable initialization
// clang: error: variable 'i' (is used|may be) uninitialized
#include <awake.h>

AW_ASYNC(int, f, aw_yield pause;) {
    AW_BEGIN;
    for (int i = 0; i < 3; i++) AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
