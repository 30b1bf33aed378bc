// The opt-out from the errors about locals.
// MUST COMPILE
// flags: -DAW_NO_LOCAL_CHECK
#include <awake.h>

AW_ASYNC(int, f, int n; int total; aw_yield pause;) {
    AW_BEGIN;
    int twice = self->n * 2;
    self->total = twice;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(self->total);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 3));
}
