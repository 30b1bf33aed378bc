// An argument that the function does not have.
// MUST FAIL
// gcc: error: 'struct f' has no member named 'm'
// clang: error: field designator 'm' does not refer to any field in type 'struct f'
#include <awake.h>

AW_ASYNC(int, f, int n;) {
    AW_BEGIN;
    AW_RETURN(self->n);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f, .m = 3));
}
