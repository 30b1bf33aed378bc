// A listener is not a connection: there is nothing to read from it.
// MUST FAIL
// lang: c++
// gcc: error: .*cannot convert
// clang: error: .*no matching function
#include <awake.h>

aw_io f(aw_listener *l, char *buf) {
    return aw_read(l, buf, 1);
}
