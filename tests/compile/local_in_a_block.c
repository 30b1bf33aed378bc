// Correct code: locals, including loop variables, in their own blocks without an await.
// MUST COMPILE
// flags: -Wpedantic -Werror
#include <awake.h>

AW_ASYNC(int, f, int n; int total; aw_yield pause;) {
    AW_BEGIN;
    {
        int twice = self->n * 2;
        self->total = twice;
    }
    for (int i = 0; i < 3; i++) self->total += i;
    AW_AWAIT(self->pause, aw_yield_now());
    int after = self->total;
    AW_RETURN(after);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 3));
}
