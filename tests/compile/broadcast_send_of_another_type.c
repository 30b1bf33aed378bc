// The sent value and the elements have different types.
// MUST FAIL
// gcc: error: .*another type than the elements of the channel
// clang: error: .*another type than the elements of the channel
#include <awake.h>

int main(void) {
    AW_BROADCAST(long) b;
    int n = 1;
    if (aw_broadcast_init(&b, 1) < 0) return 1;
    return aw_broadcast_send(&b, &n);
}
