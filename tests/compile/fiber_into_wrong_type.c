// The variable for the output has another type.
// MUST FAIL
// gcc: error: incompatible types when assigning to type 'int' from type 'struct point'
// clang: error: assigning to 'int' from incompatible type .*'struct point'
#include <awake.h>

struct point {
    int x, y;
};

AW_FIBER(struct point, origin) {
    return (struct point){0, 0};
}

AW_FIBER(int, f) {
    int x = 0;
    int error = aw_await_into(&x, AW_CALL(origin));
    return error ? error : x;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
