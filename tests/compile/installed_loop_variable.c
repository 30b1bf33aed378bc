// loop_variable.c with an installed library, whose headers are system headers to the compiler.
// MUST FAIL
// gcc: error: switch jumps over variable initialization
// clang: error: variable 'i' (is used|may be) uninitialized
// flags: -isystem include
#include "loop_variable.c"
