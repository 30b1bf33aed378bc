// A static semaphore with more permits than the maximum.
// MUST FAIL
// gcc: error: static assertion failed: "more than AW_SEMAPHORE_MAX"
// clang: error: .*static_?.?assert.*more than AW_SEMAPHORE_MAX
#include <awake.h>

static aw_semaphore s = AW_SEMAPHORE_INIT(AW_SEMAPHORE_MAX + 1);

int main(void) {
    return aw_semaphore_try_acquire(&s, 1);
}
