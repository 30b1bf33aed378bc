// What is awaited is not a future.
// MUST FAIL
// gcc: error: request for member '(out|future)' in something not a structure or union
// clang: error: member reference base type .*'int'.* is not a structure or union
#include <awake.h>

static int work(void) {
    return 3;
}

AW_FIBER(int, f) {
    return aw_await(work());
}

int main(void) {
    return aw_run(AW_CALL(f));
}
