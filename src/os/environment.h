/* SPDX-License-Identifier: MIT
 *
 * Settings from environment variables. */
#ifndef AW_OS_ENVIRONMENT_H
#define AW_OS_ENVIRONMENT_H

/* NULL if the variable is not set, or in secure-execution mode (setuid, setgid, capabilities). */
const char *aw__environment(const char *name);

/* The value as a non-negative decimal number; 0 if it is not set or not a number. */
unsigned long aw__environment_number(const char *name);

#endif
