// A value yielded in AW_FINALLY: no consumer would take it.
// MUST FAIL
// gcc: error: .*AW_YIELD_VALUE inside AW_FINALLY: no consumer would take it
// clang: error: .*AW_YIELD_VALUE inside AW_FINALLY: no consumer would take it
#include <awake.h>

AW_GENERATOR(int, f) {
    AW_BEGIN;
    AW_YIELD_VALUE(1);
    AW_FINALLY;
    AW_YIELD_VALUE(2);
    AW_END;
}

int main(void) {
    struct f g = AW_GENERATE(f);
    return g.value;
}
