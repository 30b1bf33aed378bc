// A local filled through its address: clang notices, gcc does not.
// MUST FAIL
// clang: error: variable 'length' (is used|may be) uninitialized
// gcc-silent: the address of the local was taken
#include <awake.h>

void measure(int *length);

AW_ASYNC(int, f, aw_yield pause;) {
    AW_BEGIN;
    int length;
    measure(&length);
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(length);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
