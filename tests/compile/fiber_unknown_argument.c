// An argument that the fiber does not have.
// MUST FAIL
// gcc: error: 'struct f' has no member named 'm'
// clang: error: field designator 'm' does not refer to any field in type 'struct f'
#include <awake.h>

AW_FIBER(int, f, int n;) {
    return self->n;
}

int main(void) {
    return aw_run(AW_CALL(f, .m = 3));
}
