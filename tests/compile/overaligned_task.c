// Memory for tasks is aligned to 16 bytes.
// MUST FAIL
// gcc: error: .*a future that is aligned to more than 16 bytes cannot be moved there
// clang: error: .*a future that is aligned to more than 16 bytes cannot be moved there
#include <awake.h>

AW_ASYNC(int, f, _Alignas(64) char line[64];) {
    AW_BEGIN;
    AW_RETURN(self->line[0]);
    AW_END;
}

int main(void) {
    aw_task_drop(aw_spawn(AW_CALL(f)));
}
