// Correct code: a local with an initialiser that is not used after the await. gcc rejects it
// nevertheless; local_in_a_block.c shows the way out.
// MUST FAIL
// gcc: error: switch jumps over variable initialization
// clang-silent: it sees that the local is not used
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
