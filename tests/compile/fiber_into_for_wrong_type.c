// The variable for the output has another type, with a time limit.
// MUST FAIL
// gcc: error: incompatible types when assigning to type 'struct point' from type 'int'
// clang: error: assigning to 'struct point' from incompatible type .*int
#include <awake.h>

struct point {
    int x, y;
};

AW_FIBER(int, f) {
    struct point p = {0, 0};
    int error = aw_await_into_for(AW_SEC(1), &p, aw_sleep_for(1));
    return error ? error : p.x;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
