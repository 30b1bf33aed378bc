/* SPDX-License-Identifier: MIT
 *
 * awake/detail/for_each.h: private. Macros over a list of macro arguments. */
#ifndef AWAKE_DETAIL_FOR_EACH_H
#define AWAKE_DETAIL_FOR_EACH_H

#include <awake/detail/compiler.h>

/* The number of arguments, one to eight. */
#define AW__COUNT8(...) AW__COUNT8_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)

#define AW__COUNT8_(a, b, c, d, e, f, g, h, n, ...) n

/* AW__FOR_EACH8(F, x, a, b, ...) expands to F(x, 0, a) F(x, 1, b) ...: one to eight arguments, each
 * with its index. `x` is the same for all of them. */
#define AW__FOR_EACH8(F, x, ...) AW__CAT(AW__EACH, AW__COUNT8(__VA_ARGS__))(F, x, __VA_ARGS__)

#define AW__EACH1(F, x, a)                      F(x, 0, a)
#define AW__EACH2(F, x, a, b)                   AW__EACH1(F, x, a) F(x, 1, b)
#define AW__EACH3(F, x, a, b, c)                AW__EACH2(F, x, a, b) F(x, 2, c)
#define AW__EACH4(F, x, a, b, c, d)             AW__EACH3(F, x, a, b, c) F(x, 3, d)
#define AW__EACH5(F, x, a, b, c, d, e)          AW__EACH4(F, x, a, b, c, d) F(x, 4, e)
#define AW__EACH6(F, x, a, b, c, d, e, f)       AW__EACH5(F, x, a, b, c, d, e) F(x, 5, f)
#define AW__EACH7(F, x, a, b, c, d, e, f, g)    AW__EACH6(F, x, a, b, c, d, e, f) F(x, 6, g)
#define AW__EACH8(F, x, a, b, c, d, e, f, g, h) AW__EACH7(F, x, a, b, c, d, e, f, g) F(x, 7, h)

/* Expands to `two` for exactly two arguments, to `more` for up to 32. */
#define AW__PICK32(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17,     \
                   a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, x,   \
                   ...)                                                                            \
    x
#define AW__IF_TWO(two, more, ...)                                                                 \
    AW__PICK32(__VA_ARGS__, more, more, more, more, more, more, more, more, more, more, more,      \
               more, more, more, more, more, more, more, more, more, more, more, more, more, more, \
               more, more, more, more, more, two, two, two)

#endif
