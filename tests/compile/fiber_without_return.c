// A fiber with an output, but without a return.
// MUST COMPILE
// gcc: warning: (no return statement in function returning non-void|control reaches end of non-void function)
// clang: warning: non-void function does not return a value
#include <awake.h>

AW_FIBER(int, f, int n;) {
    self->n++;
}

int main(void) {
    return aw_run(AW_CALL(f, .n = 3));
}
