/* SPDX-License-Identifier: MIT
 *
 * Internal side of awake/log.h: misuse, which aborts the program with a message. */
#ifndef AW_BASE_MISUSE_H
#define AW_BASE_MISUSE_H

#include <awake/log.h>

void aw__misuse(const char *format, ...) __attribute__((noreturn, cold, format(printf, 1, 2)));

#endif
