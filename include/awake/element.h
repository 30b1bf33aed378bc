/* SPDX-License-Identifier: MIT
 *
 * awake/element.h: what the channels have in common: private, but for what a program may say about its elements.
 *
 * A channel moves its elements by copying their bytes. One whose elements own something is told how to release one
 * that nobody takes, and, where each receiver gets its own, how to make a second one. */
#ifndef AWAKE_ELEMENT_H
#define AWAKE_ELEMENT_H

#include <awake/config.h>

AW_C_BEGIN

/* Give up what the element at `item` owns. Called on whatever thread, never under a lock: it may use the channel. */
typedef void aw_release_fn(void *item);
/* Make `*to` a second owner of what `*from` owns. Called under the lock of the channel: it does little (it counts a
 * reference), and does not use the channel. */
typedef void aw_clone_fn(void *to, const void *from);

/* Private: a pointer to an element of `c`, whose member `item` has the type; anything else does not compile. */
#ifdef __cplusplus
AW_C_END
template <typename T> static inline T *aw__item(T *, T *pointer) {
    return pointer;
}
template <typename T> static inline const T *aw__const_item(T *, const T *pointer) {
    return pointer;
}
AW_C_BEGIN
#define AW__ITEM(c, ...)       aw__item((__typeof__((c)->item))0, (__VA_ARGS__))
#define AW__CONST_ITEM(c, ...) aw__const_item((__typeof__((c)->item))0, (__VA_ARGS__))
#else
/* (The pointer is not in the block: what it points to may be a literal, which would end with it.) */
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

/* Memory of a channel is aligned to 16 bytes. */
#define AW__ASSERT_ITEM_ALIGNED(T)                                                                 \
    AW__STATIC_ASSERT(__alignof__(T) <= 16,                                                        \
                      "an element that is aligned to more than 16 bytes cannot be in a channel")

AW_C_END

#endif
