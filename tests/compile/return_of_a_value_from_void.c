// A value is returned from a function without an output.
// MUST FAIL
// gcc: error: incompatible types when assigning to type 'aw_unit' from type 'int'
// clang: error: assigning to .*'(struct )?aw_unit'.* from incompatible type 'int'
#include <awake.h>

AW_ASYNC(void, f) {
    AW_BEGIN;
    AW_RETURN(1);
    AW_END;
}

int main(void) {
    return aw_run_status(AW_CALL(f));
}
