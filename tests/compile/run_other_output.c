// aw_run returns errors in the output, which must therefore be a signed integer: a pointer.
// MUST FAIL
// gcc: error: .*this output cannot carry an error: use the _into or the _status form
// clang: error: .*this output cannot carry an error: use the _into or the _status form
#include <awake.h>

int main(void) {
    return aw_run(aw_ready_pointer(NULL)) != NULL;
}
