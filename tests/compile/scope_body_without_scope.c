// The body of a scope must have a member that points to the scope.
// MUST FAIL
// gcc: error: .*has no member named 'scope'
// clang: error: no member named 'scope'
#include <awake.h>

AW_ASYNC(int, body) {
    AW_BEGIN;
    AW_RETURN(0);
    AW_END;
}
AW_ASYNC(int, parent, AW_SCOPE(struct body) s;) {
    AW_BEGIN;
    AW_AWAIT_SCOPE(self->s, AW_CALL(body));
    AW_RETURN(0);
    AW_END;
}
