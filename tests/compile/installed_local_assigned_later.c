// local_assigned_later.c with an installed library, whose headers are system headers to the compiler.
// MUST FAIL
// clang: error: variable 'twice' (is used|may be) uninitialized
// gcc-O0-silent: no data flow without optimisation
// gcc-O2: error: 'twice' may be used uninitialized
// flags: -Werror -isystem include
#include "local_assigned_later.c"
