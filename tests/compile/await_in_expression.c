// An await inside a statement expression cannot be resumed.
// MUST FAIL
// gcc: error: switch jumps into statement expression
// clang-silent: it lets a switch jump there
#include <awake.h>

AW_ASYNC(int, f, int n; aw_ready child;) {
    AW_BEGIN;
    self->n = __extension__({
        AW_AWAIT(self->child, aw_ready_now(1));
        self->child.out;
    });
    AW_RETURN(self->n);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
