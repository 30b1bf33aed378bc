// Functions over streams are written in C; what C++ has of streams is in stream_cpp_user.c.
// MUST FAIL
// lang: c++
// gcc: error: .*AW_MAP is written in C, not C\+\+
// clang: error: .*AW_MAP is written in C, not C\+\+
#include <awake.h>

AW_MAP(double, half, int) {
    return *item / 2.0;
}
