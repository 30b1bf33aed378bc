/* SPDX-License-Identifier: MIT
 *
 * awake/detail/compiler.h: private. What the headers need from the compiler. */
#ifndef AWAKE_DETAIL_COMPILER_H
#define AWAKE_DETAIL_COMPILER_H

#ifdef __cplusplus
#define AW__STATIC_ASSERT static_assert
#else
#define AW__STATIC_ASSERT _Static_assert
#endif

#define AW__LIKELY(x)   __builtin_expect(!!(x), 1)
#define AW__UNLIKELY(x) __builtin_expect(!!(x), 0)
#define AW__COLD        __attribute__((cold, noinline))
#define AW__UNUSED      __attribute__((unused))

/* Concatenates two tokens after expanding them. */
#define AW__CAT(a, b)  AW__CAT_(a, b)
#define AW__CAT_(a, b) a##b

#endif
