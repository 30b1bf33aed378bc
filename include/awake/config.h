/* SPDX-License-Identifier: MIT
 *
 * awake/config.h: what the other headers need from the compiler.
 *
 * AW_CHECKS (default 1) keeps the checks that catch misuse with file and line: a future polled
 * after its end, moved after its first poll, an await outside its frame. Struct layouts do not
 * depend on it, so files compiled with and without it may be mixed. */
#ifndef AWAKE_CONFIG_H
#define AWAKE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef AW_CHECKS
#define AW_CHECKS 1
#endif

#define AW_API               __attribute__((visibility("default")))
#define AW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#ifdef __cplusplus
#define AW_C_BEGIN        extern "C" {
#define AW_C_END          }
#define AW__STATIC_ASSERT static_assert
#else
#define AW_C_BEGIN
#define AW_C_END
#define AW__STATIC_ASSERT _Static_assert
#endif

/* Memory for futures is aligned to 16 bytes. */
#define AW__ASSERT_ALIGNED(...)                                                                    \
    AW__STATIC_ASSERT(__alignof__(__typeof__(__VA_ARGS__)) <= 16,                                  \
                      "a future that is aligned to more than 16 bytes cannot be moved there")

#define AW__LIKELY(x)   __builtin_expect(!!(x), 1)
#define AW__UNLIKELY(x) __builtin_expect(!!(x), 0)
#define AW__COLD        __attribute__((cold, noinline))
#define AW__UNUSED      __attribute__((unused))

/* Durations and points in time are nanoseconds in a uint64_t. */
#define AW_NSEC(n) ((uint64_t)(n))
#define AW_USEC(n) ((uint64_t)(n)*1000u)
#define AW_MSEC(n) ((uint64_t)(n)*1000000u)
#define AW_SEC(n)  ((uint64_t)(n)*1000000000u)
#define AW_FOREVER UINT64_MAX

#endif
