// The wrong form of await for an output is found in C++, too.
// MUST FAIL
// lang: c++
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

struct count {
    AW_FIBER_FRAME(unsigned);
};

int f(void *arg) {
    return static_cast<int>(aw_await(*static_cast<count *>(arg)));
}
