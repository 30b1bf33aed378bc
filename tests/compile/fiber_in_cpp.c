// AW_FIBER is for C; fiber_cpp_user.c has what C++ uses instead.
// MUST FAIL
// lang: c++
// gcc: error: .*in C\+\+ use aw_fiber_of: AW_FIBER is for C
// clang: error: .*in C\+\+ use aw_fiber_of: AW_FIBER is for C
#include <awake.h>

AW_FIBER(int, f, int n;) {
    return self->n;
}
