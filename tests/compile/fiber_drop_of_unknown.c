// A drop part for a fiber that does not exist.
// MUST FAIL
// gcc: error: .*(struct g|undefined type|incomplete type)
// clang: error: .*(struct g|undefined type|incomplete)
#include <awake.h>

AW_FIBER(int, f, int n;) {
    return self->n;
}
AW_FIBER_DROP(g) {
    (void)self->n;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 3));
}
