// Async functions are written in C; the other headers also work in C++ (cpp_user.c).
// MUST FAIL
// lang: c++
// gcc: error: .*AW_ASYNC functions are written in C, not C\+\+
// clang: error: .*AW_ASYNC functions are written in C, not C\+\+
#include <awake.h>

AW_ASYNC(int, f) {
    AW_BEGIN;
    AW_RETURN(0);
    AW_END;
}
