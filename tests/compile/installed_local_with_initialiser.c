// local_with_initialiser.c with an installed library, whose headers are system headers to the compiler.
// MUST FAIL
// gcc: error: switch jumps over variable initialization
// clang: error: variable 'twice' (is used|may be) uninitialized
// flags: -isystem include
#include "local_with_initialiser.c"
