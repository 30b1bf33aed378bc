// The variable for the received value and the elements have different types.
// MUST FAIL
// gcc: error: .*another type than the elements of the channel
// clang: error: .*another type than the elements of the channel
#include <awake.h>

int main(void) {
    AW_CHANNEL(long) c;
    int n[2] = {1, 2};
    if (aw_channel_init(&c, 1) < 0) return 1;
    return aw_wait(aw_channel_recv_many(&c, n, 2));
}
