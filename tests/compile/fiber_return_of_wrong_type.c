// The returned value has another type than the output.
// MUST FAIL
// gcc: error: incompatible types when returning type 'struct point' but 'int' was expected
// clang: error: returning 'struct point' from a function with incompatible result type
#include <awake.h>

struct point {
    int x, y;
};

AW_FIBER(int, f) {
    return (struct point){1, 2};
}

int main(void) {
    return aw_run(AW_CALL(f));
}
