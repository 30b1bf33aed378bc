// A switch on 64 bits around an await compiles; tests/unit/async_misuse.c tests what happens
// then.
// MUST COMPILE
#include <awake.h>

AW_ASYNC(int, f, uint64_t n; aw_yield pause;) {
    AW_BEGIN;
    switch (self->n) {
    case 1: AW_AWAIT(self->pause, aw_yield_now()); break;
    default: break;
    }
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 1));
}
