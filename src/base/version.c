/* SPDX-License-Identifier: MIT */
#include <awake/version.h>

#define TEXT(n)  TEXT_(n)
#define TEXT_(n) #n

const char *aw_version(void) {
    return TEXT(AW_VERSION_MAJOR) "." TEXT(AW_VERSION_MINOR) "." TEXT(AW_VERSION_PATCH);
}
