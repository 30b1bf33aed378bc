// An adapter that passes items on must have their type.
// MUST FAIL
// gcc: error: .*these streams have items of different types
// clang: error: .*these streams have items of different types
#include <awake.h>

int main(void) {
    static long numbers[3];
    AW_ARRAY_STREAM(long) s;
    AW_TAKE(int) t;
    aw_stream_array(&s, numbers, 3);
    aw_stream_take(&t, &s, 1);
    return t.item == NULL;
}
