/* SPDX-License-Identifier: MIT
 *
 * awake/detail/group.h: private. The layout of groups, and the macros that make them. */
#ifndef AWAKE_DETAIL_GROUP_H
#define AWAKE_DETAIL_GROUP_H

#include <awake/detail/for_each.h>
#include <awake/future.h>

AW_C_BEGIN

/* The head of every group. */
#define AW__GROUP_HEAD                                                                             \
    aw_future future;                                                                              \
    int out;                                                                                       \
    uint32_t left; /* select: the finished branches that were not taken yet */                     \
    uint8_t count, first, flags, winner

enum {
    AW__GROUP_REFS = 1,    /* children by pointer, not by offset */
    AW__GROUP_BIASED = 2,  /* always begin with the first child */
    AW__GROUP_DECIDED = 4, /* the result is known: only cancels remain */
    AW__GROUP_POLLED = 8
};

/* Any group that holds its children by value. */
struct __attribute__((may_alias)) aw__group {
    AW__GROUP_HEAD;
    uint32_t at[8]; /* offsets of the children; only the first `count` exist */
};

#ifndef __cplusplus

/* The type: the head, the offsets, and the children as members f0 to f7. */
#define AW__GROUP(...)                                                                             \
    struct {                                                                                       \
        AW__GROUP_HEAD;                                                                            \
        uint32_t at[AW__COUNT8(__VA_ARGS__)];                                                      \
        AW__FOR_EACH8(AW__GROUP_MEMBER, , __VA_ARGS__)                                             \
    }
#define AW__GROUP_MEMBER(x, i, F) F f##i;

/* A value. `mode` is 0 or AW__GROUP_BIASED. */
#define AW__GROUP_OF(T, kind, mode, ...)                                                           \
    ((T){.future = AW_FUTURE_INIT(&kind),                                                          \
         .flags = mode,                                                                            \
         .count = AW__COUNT8(__VA_ARGS__),                                                         \
         AW__FOR_EACH8(AW__GROUP_CHILD, T, __VA_ARGS__)})
#define AW__GROUP_CHILD(T, i, child) .at[i] = offsetof(T, f##i), .f##i = child,

#define AW__AWAIT_GROUP(child, kind, mode, ...)                                                    \
    AW_AWAIT(child, AW__GROUP_OF(__typeof__(child), kind, mode, __VA_ARGS__))

/* A value that holds pointers to its children. */
#define AW__GROUP_REFS_OF(kind, mode, ...)                                                         \
    aw__group_refs(&kind, AW__GROUP_REFS | (mode),                                                 \
                   (aw_future *[]){AW__FOR_EACH8(AW__GROUP_REF, , __VA_ARGS__)},                   \
                   AW__COUNT8(__VA_ARGS__))
#define AW__GROUP_REF(x, i, f) &(f)->future,

#endif

AW_C_END

#endif
