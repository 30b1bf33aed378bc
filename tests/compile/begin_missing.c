// AW_BEGIN forgotten.
// MUST FAIL
// gcc: error: case label not within a switch statement
// clang: error: 'case' statement not in switch statement
#include <awake.h>

AW_ASYNC(int, f, aw_yield pause;) {
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(1);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
