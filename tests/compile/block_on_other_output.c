// aw_block_on returns errors in the output, which must therefore be a signed integer.
// MUST FAIL
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

AW_ASYNC(double, half, int n;) {
    AW_BEGIN;
    AW_RETURN(self->n / 2.0);
    AW_END;
}

double on(aw_runtime *rt);
double on(aw_runtime *rt) {
    return aw_block_on(rt, AW_CALL(half, .n = 3));
}
