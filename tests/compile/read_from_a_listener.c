// A listener is not a connection: there is nothing to read from it.
// MUST FAIL
// flags: -Werror
// gcc: error: .*incompatible pointer type
// clang: error: .*incompatible pointer types
#include <awake.h>

aw_io f(aw_listener *l, char *buf) {
    return aw_read(l, buf, 1);
}
