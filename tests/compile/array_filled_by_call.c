// An array that is filled by a call and used after an await: neither compiler notices. This file
// only documents that.
// MUST COMPILE
#include <awake.h>

void fill(char *buffer, size_t size);

AW_ASYNC(int, f, aw_yield pause;) {
    AW_BEGIN;
    char buffer[16];
    fill(buffer, sizeof buffer);
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(buffer[0]);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
