// Fibers by AW_FIBER are written in C; what C++ has instead is in fiber_cpp_user.c.
// MUST FAIL
// lang: c++
// gcc: error: .*in C\+\+ use aw_fiber_of: AW_FIBER is for C
// clang: error: .*in C\+\+ use aw_fiber_of: AW_FIBER is for C
#include <awake.h>

AW_FIBER(int, f, int n;) {
    return self->n;
}
