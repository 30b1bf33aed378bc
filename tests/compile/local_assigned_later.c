// A local without an initialiser, assigned before an await and used after it. gcc finds it only
// with optimisation, and warns.
// MUST FAIL
// clang: error: variable 'twice' (is used|may be) uninitialized
// gcc-O0-silent: no data flow without optimisation
// gcc-O2: error: 'twice' may be used uninitialized
// flags: -Werror
#include <awake.h>

AW_ASYNC(int, f, int n; aw_yield pause;) {
    AW_BEGIN;
    int twice;
    twice = self->n * 2;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(twice);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 3));
}
