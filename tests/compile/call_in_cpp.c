// AW_CALL needs designated initialisers, which C++17 does not have.
// MUST FAIL
// lang: c++
// gcc: error: .*AW_CALL needs C's designated initialisers
// clang: error: .*AW_CALL needs C's designated initialisers
#include <awake.h>

struct f {
    aw_future future;
    int out;
};

int main() {
    AW_CALL(f);
}
