// MUST COMPILE
// flags: -Wpedantic -Werror
#include <awake.h>

struct pair {
    int a, b;
};

static AW_ONESHOT(struct pair) reply = AW_ONESHOT_INIT;
static AW_ONESHOT(int) number = AW_ONESHOT_INIT;

int main(void) {
    return aw_oneshot_send(&reply, (struct pair){1, 2}) + aw_oneshot_send(&number, 3);
}
