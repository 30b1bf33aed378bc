// A fiber that contains itself by value would be infinite. Awaiting itself is fine: see
// fiber_everything.c.
// MUST FAIL
// gcc: error: field 'again' has incomplete type
// clang: error: field has incomplete type 'struct f'
#include <awake.h>

AW_FIBER(int, f, int n; struct f again;) {
    return self->n;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 3));
}
