/* SPDX-License-Identifier: MIT
 *
 * Settings from the environment. */
#ifndef AW_OS_ENVIRONMENT_H
#define AW_OS_ENVIRONMENT_H

/* NULL when it is not set, or when the program runs with more rights than who started it. */
const char *aw__environment(const char *name);

/* A number that is not negative; 0 when it is not set or makes no sense. */
unsigned long aw__environment_number(const char *name);

#endif
