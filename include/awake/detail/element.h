/* SPDX-License-Identifier: MIT
 *
 * awake/detail/element.h: private. How channels, broadcasts and watches check the type of their
 * elements. */
#ifndef AWAKE_DETAIL_ELEMENT_H
#define AWAKE_DETAIL_ELEMENT_H

#include <awake/detail/compiler.h>

/* A pointer to an element of `c`. Any type but that of the member `item` does not compile. */
#ifdef __cplusplus
template <typename T> static inline T *aw__item(T *, T *pointer) {
    return pointer;
}
template <typename T> static inline const T *aw__const_item(T *, const T *pointer) {
    return pointer;
}
#define AW__ITEM(c, ...)       aw__item((__typeof__((c)->item))0, (__VA_ARGS__))
#define AW__CONST_ITEM(c, ...) aw__const_item((__typeof__((c)->item))0, (__VA_ARGS__))
#else
/* The pointer is outside the block: it may point to a compound literal, which ends with its
 * block. */
#define AW__ITEM(c, ...)                                                                           \
    ((void)__extension__({                                                                         \
         _Static_assert(                                                                           \
             __builtin_types_compatible_p(__typeof__(*(__VA_ARGS__)), __typeof__(*(c)->item)),     \
             "the value has another type than the elements of the channel");                       \
         0;                                                                                        \
     }),                                                                                           \
     (__VA_ARGS__))
#define AW__CONST_ITEM(c, ...) AW__ITEM(c, __VA_ARGS__)
#endif

/* The value of `call`, which allocates elements of type T: memory of a channel is aligned to 16
 * bytes. */
#define AW__ITEMS_OF(T, call)                                                                      \
    __extension__({                                                                                \
        AW__STATIC_ASSERT(                                                                         \
            __alignof__(T) <= 16,                                                                  \
            "an element that is aligned to more than 16 bytes cannot be in a channel");            \
        call;                                                                                      \
    })

/* The value of `call`, which moves an element of `c` to aw__old before it is released. */
#define AW__WITH_OLD(c, call)                                                                      \
    __extension__({                                                                                \
        __typeof__(*(c)->item) aw__old;                                                            \
        call;                                                                                      \
    })

#endif
