// An adapter over a stream with items of another type.
// MUST FAIL
// gcc: error: '_Generic' selector of type 'long int \*\*' is not compatible with any association
// clang: error: controlling expression type 'long \*\*' not compatible with any generic association type
#include <awake.h>

AW_FILTER(even, int) {
    return *item % 2 == 0;
}

int main(void) {
    static long numbers[3];
    AW_ARRAY_STREAM(long) s;
    aw_stream_array(&s, numbers, 3);
    struct even e = AW_ADAPTER(even, &s);
    return e.item == NULL;
}
