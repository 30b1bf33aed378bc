// Merged streams must have items of one type.
// MUST FAIL
// gcc: error: '_Generic' selector of type 'long int \*' is not compatible with any association
// clang: error: controlling expression type 'long \*' not compatible with any generic association type
#include <awake.h>

int main(void) {
    static long longs[3];
    static int ints[3];
    AW_ARRAY_STREAM(int) a;
    AW_ARRAY_STREAM(long) b;
    AW_MERGE(int, 2) m;
    aw_stream_array(&a, ints, 3);
    aw_stream_array(&b, longs, 3);
    aw_stream_merge(&m, &a, &b);
    return m.item == NULL;
}
