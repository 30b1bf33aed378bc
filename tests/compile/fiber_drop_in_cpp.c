// AW_FIBER_DROP is for C, like AW_FIBER.
// MUST FAIL
// lang: c++
// gcc: error: .*in C\+\+ use aw_fiber_of: AW_FIBER is for C
// clang: error: .*in C\+\+ use aw_fiber_of: AW_FIBER is for C
#include <awake.h>

AW_FIBER_DROP(f) {
    (void)self;
}
