/* SPDX-License-Identifier: MIT
 *
 * Settings from the environment. */
#ifndef AW_OS_ENVIRONMENT_H
#define AW_OS_ENVIRONMENT_H

/* A number that is not negative; 0 when it is not set, makes no sense, or when the program runs with
 * more rights than who started it. */
unsigned long aw__environment_number(const char *name);

#endif
