// An output that cannot carry the scope's error is awaited with aw_await_scope_into.
// MUST FAIL
// gcc: error: static assertion failed: "this output cannot carry an error
// clang: error: .*this output cannot carry an error
#include <awake.h>

AW_ASYNC(double, body, aw_scope *scope;) {
    AW_BEGIN;
    AW_RETURN(0.5);
    AW_END;
}
AW_FIBER(int, parent) {
    return aw_await_scope(AW_CALL(body)) > 0;
}
