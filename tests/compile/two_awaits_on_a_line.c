// Two awaits on one line would share their resume point.
// MUST FAIL
// gcc: error: duplicate case value
// clang: error: duplicate case value
#include <awake.h>

AW_ASYNC(int, f, aw_yield a; aw_yield b;) {
    AW_BEGIN;
    AW_AWAIT(self->a, aw_yield_now()); AW_AWAIT(self->b, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
