// Two drop parts for one fiber.
// MUST FAIL
// gcc: error: redefinition of 'aw__drop
// clang: error: redefinition of 'aw__drop
#include <awake.h>

AW_FIBER(int, f, int n;) {
    return self->n;
}
AW_FIBER_DROP(f) {
    (void)self;
}
AW_FIBER_DROP(f) {
    (void)self;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 3));
}
