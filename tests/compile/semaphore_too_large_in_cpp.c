// A semaphore with more permits than the maximum, in C++.
// MUST FAIL
// gcc: error: .*size .*of array is negative
// clang: error: .*negative
// lang: c++
#include <awake.h>

static aw_semaphore s = AW_SEMAPHORE_INIT(-1);

int main() {
    return aw_semaphore_try_acquire(&s, 1);
}
