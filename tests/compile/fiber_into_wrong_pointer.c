// A pointer to something else gets a warning, as in any assignment.
// MUST COMPILE
// gcc: warning: assignment to 'int \*' from incompatible pointer type 'char \*'
// clang: warning: incompatible pointer types assigning to 'int \*' from .*'char \*'
#include <awake.h>

AW_FIBER(char *, text) {
    return 0;
}

AW_FIBER(int, f) {
    int *p = 0;
    int error = aw_await_into(&p, AW_CALL(text));
    return error ? error : p != 0;
}

int main(void) {
    return aw_run(AW_CALL(f));
}
