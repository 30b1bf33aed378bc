// The member of the body must point to a scope.
// MUST FAIL
// gcc: error: .*_Generic.* selector of type 'int \*' is not compatible with any association
// clang: error: controlling expression type 'int \*' not compatible with any generic association type
#include <awake.h>

AW_ASYNC(int, body, int *scope;) {
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
