// two_awaits_on_a_line.c with an installed library: the compiler treats its headers as system
// headers.
// MUST FAIL
// gcc: error: duplicate case value
// clang: error: duplicate case value
// flags: -isystem include
#include "two_awaits_on_a_line.c"
