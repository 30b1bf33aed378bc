// The yielded value must have the type of the generator.
// MUST FAIL
// gcc: error: incompatible types when assigning to type 'struct point'.* from type 'int'
// clang: error: assigning to 'struct point'.* from incompatible type 'int'
#include <awake.h>

struct point {
    int x, y;
};

AW_GENERATOR(struct point, f) {
    AW_BEGIN;
    AW_YIELD_VALUE(1);
    AW_END;
}

int main(void) {
    struct f g = AW_GENERATE(f);
    return g.value.x;
}
