// A local that is initialised before an await and used after it: a resume jumps past the initialiser.
// MUST FAIL
// gcc: error: switch jumps over variable initialization
// clang: error: variable 'twice' (is used|may be) uninitialized
#include <awake.h>

AW_ASYNC(int, f, int n; aw_yield pause;) {
    AW_BEGIN;
    int twice = self->n * 2;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(twice);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 3));
}
