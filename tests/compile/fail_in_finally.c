// AW_FAIL in AW_FINALLY: cleanup cannot fail the task.
// MUST FAIL
// gcc: error: .*AW_FAIL inside AW_FINALLY: cleanup cannot fail the task
// clang: error: .*AW_FAIL inside AW_FINALLY: cleanup cannot fail the task
#include <awake.h>

AW_ASYNC(int, f, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(1);
    AW_FINALLY;
    AW_FAIL(-1);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
