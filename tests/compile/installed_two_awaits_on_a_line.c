// two_awaits_on_a_line.c with an installed library, whose headers are system headers to the compiler.
// MUST FAIL
// gcc: error: duplicate case value
// clang: error: duplicate case value
// flags: -isystem include
#include "two_awaits_on_a_line.c"
