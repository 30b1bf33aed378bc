// A function that contains itself by value would be infinite.
// MUST FAIL
// gcc: error: field 'again' has incomplete type
// clang: error: field has incomplete type 'struct f'
#include <awake.h>

AW_ASYNC(int, f, int n; struct f again;) {
    AW_BEGIN;
    if (self->n == 0) AW_RETURN(0);
    AW_AWAIT(self->again, AW_CALL(f, .n = self->n - 1));
    AW_RETURN(self->again.out);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 3));
}
