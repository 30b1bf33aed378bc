// A function has at most one cleanup part.
// MUST FAIL
// gcc: error: duplicate label 'aw__finish'
// clang: error: redefinition of label 'aw__finish'
#include <awake.h>

AW_ASYNC(int, f) {
    AW_BEGIN;
    AW_RETURN(1);
    AW_FINALLY;
    AW_FINALLY;
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
