// switch_on_int.c with an installed library, whose headers are system headers to the compiler.
// MUST FAIL
// gcc: error: duplicate case value
// clang: error: duplicate case value
// flags: -isystem include
#include "switch_on_int.c"
