// Awaiting something that is not a future.
// MUST FAIL
// gcc: error: request for member 'future' in something not a structure or union
// clang: error: .*base type 'int' is not a structure or union
#include <awake.h>

AW_ASYNC(int, f, int n;) {
    AW_BEGIN;
    AW_AWAIT(self->n, 3);
    AW_RETURN(self->n);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
