// The returned value has another type than the output.
// MUST FAIL
// gcc: error: incompatible types when assigning to type 'int' from type 'struct point'
// clang: error: assigning to .*'int'.* from incompatible type 'struct point'
#include <awake.h>

struct point {
    int x, y;
};

AW_ASYNC(int, f) {
    AW_BEGIN;
    AW_RETURN((struct point){1, 2});
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
