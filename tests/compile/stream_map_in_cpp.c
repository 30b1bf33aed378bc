// Adapters with functions are for C; stream_cpp_user.c has what C++ can use.
// MUST FAIL
// lang: c++
// gcc: error: .*AW_MAP is written in C, not C\+\+
// clang: error: .*AW_MAP is written in C, not C\+\+
#include <awake.h>

AW_MAP(double, half, int) {
    return *item / 2.0;
}
