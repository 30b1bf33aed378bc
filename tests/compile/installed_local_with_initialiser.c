// local_with_initialiser.c with an installed library: the compiler treats its headers as system
// headers.
// MUST FAIL
// gcc: error: switch jumps over variable initialization
// clang: error: variable 'twice' (is used|may be) uninitialized
// flags: -isystem include
#include "local_with_initialiser.c"
