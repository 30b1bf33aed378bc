// A local before AW_BEGIN would be initialised again by every resume.
// MUST FAIL
// gcc: error: expected expression before '__label__'
// clang: error: expected expression
#include <awake.h>

AW_ASYNC(int, f, int n; aw_yield pause;) {
    int twice = self->n * 2;
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(twice);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 3));
}
