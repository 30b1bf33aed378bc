// A struct cannot carry an error.
// MUST FAIL
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

struct point {
    int x, y;
};

AW_FIBER(struct point, origin) {
    return (struct point){0, 0};
}

AW_FIBER(int, f) {
    aw_await(AW_CALL(origin));
    return 0;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
