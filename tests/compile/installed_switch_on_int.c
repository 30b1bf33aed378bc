// switch_on_int.c with an installed library: the compiler treats its headers as system headers.
// MUST FAIL
// gcc: error: duplicate case value
// clang: error: duplicate case value
// flags: -isystem include
#include "switch_on_int.c"
