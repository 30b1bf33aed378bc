/* SPDX-License-Identifier: MIT
 *
 * awake/config.h: what the other headers need from the compiler, and units of time.
 *
 * AW_CHECKS (default 1) enables the checks that report misuse with file and line: a future that is
 * polled after its end or moved after its first poll, an await outside its frame. Struct layouts do
 * not depend on it: you may mix files compiled with and without it. */
#ifndef AWAKE_CONFIG_H
#define AWAKE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <awake/detail/compiler.h>

#ifndef AW_CHECKS
#define AW_CHECKS 1
#endif

#define AW_API               __attribute__((visibility("default")))
#define AW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#ifdef __cplusplus
#define AW_C_BEGIN extern "C" {
#define AW_C_END   }
#else
#define AW_C_BEGIN
#define AW_C_END
#endif

/* Durations and points in time are nanoseconds in a uint64_t. */
#define AW_NSEC(n) ((uint64_t)(n))
#define AW_USEC(n) ((uint64_t)(n)*1000u)
#define AW_MSEC(n) ((uint64_t)(n)*1000000u)
#define AW_SEC(n)  ((uint64_t)(n)*1000000000u)
#define AW_FOREVER UINT64_MAX

#endif
