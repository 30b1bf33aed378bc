// aw_run with a pointer output in C++.
// MUST FAIL
// lang: c++
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

typedef AW_READY_OF(double) ready_double;

int main() {
    ready_double half = {AW_FUTURE_INIT(&aw_ready_any_type), 0.5};
    return aw_run(half) > 0;
}
