/* SPDX-License-Identifier: MIT
 *
 * awake/version.h: the version. 0.x promises no ABI: the soname changes with each minor version. */
#ifndef AWAKE_VERSION_H
#define AWAKE_VERSION_H

#include <awake/config.h>

#define AW_VERSION_MAJOR 0
#define AW_VERSION_MINOR 1
#define AW_VERSION_PATCH 0

AW_C_BEGIN

/* The version of the running library, as "major.minor.patch". It may differ from the macros above,
 * which are from the headers. Any thread. */
AW_API const char *aw_version(void);

AW_C_END

#endif
