// An await inside a switch on an enum: its two case keys become one there. Otherwise this would
// compile, and the function would end silently when it is resumed.
// MUST FAIL
// gcc: error: duplicate case value
// clang: error: duplicate case value
#include <awake.h>

enum colour { RED, GREEN };

AW_ASYNC(int, f, enum colour c; aw_yield pause;) {
    AW_BEGIN;
    switch (self->c) {
    case RED: AW_AWAIT(self->pause, aw_yield_now()); break;
    default: break;
    }
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f, .c = RED));
}
