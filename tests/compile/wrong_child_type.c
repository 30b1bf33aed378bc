// The future and the member that holds it have different types.
// MUST FAIL
// gcc: error: incompatible types when assigning to type 'aw_yield'.* from type 'struct child'
// clang: error: assigning to 'aw_yield'.* from incompatible type 'struct child'
#include <awake.h>

AW_ASYNC(int, child) {
    AW_BEGIN;
    AW_RETURN(1);
    AW_END;
}

AW_ASYNC(int, f, aw_yield c;) {
    AW_BEGIN;
    AW_AWAIT(self->c, AW_CALL(child));
    AW_RETURN(self->c.out);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
