// local_assigned_later.c with an installed library: the compiler treats its headers as system
// headers.
// MUST FAIL
// clang: error: variable 'twice' (is used|may be) uninitialized
// gcc-O0-silent: no data flow without optimisation
// gcc-O2: error: 'twice' may be used uninitialized
// flags: -Werror -isystem include
#include "local_assigned_later.c"
