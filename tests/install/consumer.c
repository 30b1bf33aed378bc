/* SPDX-License-Identifier: MIT
 *
 * The smallest program that uses an installed or embedded Awake: header and library must agree. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    char header[32];
    snprintf(header, sizeof header, "%d.%d.%d", AW_VERSION_MAJOR, AW_VERSION_MINOR,
             AW_VERSION_PATCH);
    printf("awake %s\n", aw_version());
    return strcmp(header, aw_version()) == 0 ? 0 : 1;
}
