/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/environment.h"

#include <ctype.h>
#include <stdlib.h>

const char *aw__environment(const char *name) {
    return secure_getenv(name);
}

unsigned long aw__environment_number(const char *name) {
    const char *text = aw__environment(name);
    if (!text || !isdigit((unsigned char)*text)) return 0;
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    return *end ? 0 : n;
}
