// loop_variable.c with an installed library: the compiler treats its headers as system headers.
// MUST FAIL
// gcc: error: switch jumps over variable initialization
// clang: error: variable 'i' (is used|may be) uninitialized
// flags: -isystem include
#include "loop_variable.c"
