// A variable-length array in the scope of an await.
// MUST FAIL
// gcc: error: switch jumps into scope of identifier with variably modified type
// clang: error: cannot jump from switch statement to this case label
#include <awake.h>
#include <string.h>

AW_ASYNC(int, f, size_t n; aw_yield pause;) {
    AW_BEGIN;
    char buffer[self->n];
    memset(buffer, 0, self->n);
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(buffer[0]);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 8));
}
