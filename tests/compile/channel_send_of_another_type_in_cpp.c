// The sent value and the elements have different types.
// MUST FAIL
// lang: c++
// gcc: error: no matching function for call to 'aw__const_item
// clang: error: no matching function for call to 'aw__const_item
#include <awake.h>

int main() {
    AW_CHANNEL(long) c;
    int n = 1;
    if (aw_channel_init(&c, 1) < 0) return 1;
    return aw_channel_try_send(&c, &n);
}
