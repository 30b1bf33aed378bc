/* SPDX-License-Identifier: MIT
 *
 * awake/group.h: join, try_join and select over a fixed set of unlike futures.
 *
 *     AW_ASYNC(int, both, AW_JOIN(struct fetch, aw_sleep) j;) {
 *         AW_BEGIN;
 *         AW_AWAIT_JOIN(self->j, AW_CALL(fetch, .url = u), aw_sleep_for(AW_SEC(1)));
 *         AW_RETURN(self->j.f0.out);
 *         AW_END;
 *     }
 *
 * The children are held by value, as members f0 to f7, so that a group can be moved before its first
 * poll and spawned. Each poll polls the children that have not ended, beginning with another one each
 * time (AW_..._BIASED: always top to bottom). For more children, or equal ones, see awake/all.h.
 *
 *   join      ends when all have; `out` is 0. Cancelled: gone when one of its children was, after
 *             discarding those that had finished; finished when all of them finished.
 *   try_join  for outputs that carry errors: on the first negative one the others are cancelled, what
 *             they had finished is discarded, and `out` is that error.
 *   select    ends when the first has finished and the others are gone. `out` is the set of those that
 *             finished, a bit each: losing the race and finishing at the same moment loses nothing.
 *             Walk it with AW_SELECT_EACH or take the first with aw_select_winner, which discards the
 *             others.
 *
 * In an async function the children may also be members of the frame, held by pointer: the frame is
 * pinned by then. AW_AWAIT(self->j, aw_join_refs(&self->a, &self->b)) with an `aw_group j`. */
#ifndef AWAKE_GROUP_H
#define AWAKE_GROUP_H

#include <awake/async.h>
#include <awake/future.h>

AW_C_BEGIN

#define AW_GROUP_MAX 8

/* The head of every group. */
#define AW__GROUP_HEAD                                                                             \
    aw_future future;                                                                              \
    int out;                                                                                       \
    uint32_t left; /* select: the finished branches that nobody has taken yet */                   \
    uint8_t count, first, flags, winner

enum {
    AW__GROUP_REFS = 1,    /* children by pointer, not by offset */
    AW__GROUP_BIASED = 2,  /* always begin with the first child */
    AW__GROUP_DECIDED = 4, /* the result is known: only winding up is left */
    AW__GROUP_POLLED = 8
};

struct __attribute__((may_alias)) aw__group {
    AW__GROUP_HEAD;
    uint32_t at[AW_GROUP_MAX]; /* offsets of the children; only `count` of them are there */
};

/* A group that holds pointers, for pinned frames only. */
/* aw-future: aw_group */
typedef struct aw_group {
    AW__GROUP_HEAD;
    aw_future *child[AW_GROUP_MAX];
} aw_group;

AW_API extern const aw_future_type aw_join_type;
AW_API extern const aw_future_type aw_try_join_type;
AW_API extern const aw_future_type aw_select_type;

AW_API aw_group aw__group_refs(const aw_future_type *type, unsigned flags, unsigned count,
                               aw_future *const *children);
AW_API int aw__select_next(aw_future *select);
AW_API int aw__select_winner(aw_future *select);

#ifndef __cplusplus

/* The i-th argument onwards, and how many there are. */
#define AW__COUNT8(...)                             AW__COUNT8_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define AW__COUNT8_(a, b, c, d, e, f, g, h, n, ...) n
#define AW__CAT(a, b)                               AW__CAT_(a, b)
#define AW__CAT_(a, b)                              a##b

#define AW__MEMBERS1(a)                      a f0;
#define AW__MEMBERS2(a, b)                   AW__MEMBERS1(a) b f1;
#define AW__MEMBERS3(a, b, c)                AW__MEMBERS2(a, b) c f2;
#define AW__MEMBERS4(a, b, c, d)             AW__MEMBERS3(a, b, c) d f3;
#define AW__MEMBERS5(a, b, c, d, e)          AW__MEMBERS4(a, b, c, d) e f4;
#define AW__MEMBERS6(a, b, c, d, e, f)       AW__MEMBERS5(a, b, c, d, e) f f5;
#define AW__MEMBERS7(a, b, c, d, e, f, g)    AW__MEMBERS6(a, b, c, d, e, f) g f6;
#define AW__MEMBERS8(a, b, c, d, e, f, g, h) AW__MEMBERS7(a, b, c, d, e, f, g) h f7;
#define AW__AT1(T)                           offsetof(T, f0)
#define AW__AT2(T)                           AW__AT1(T), offsetof(T, f1)
#define AW__AT3(T)                           AW__AT2(T), offsetof(T, f2)
#define AW__AT4(T)                           AW__AT3(T), offsetof(T, f3)
#define AW__AT5(T)                           AW__AT4(T), offsetof(T, f4)
#define AW__AT6(T)                           AW__AT5(T), offsetof(T, f5)
#define AW__AT7(T)                           AW__AT6(T), offsetof(T, f6)
#define AW__AT8(T)                           AW__AT7(T), offsetof(T, f7)
#define AW__VALUES1(a)                       .f0 = a
#define AW__VALUES2(a, b)                    AW__VALUES1(a), .f1 = b
#define AW__VALUES3(a, b, c)                 AW__VALUES2(a, b), .f2 = c
#define AW__VALUES4(a, b, c, d)              AW__VALUES3(a, b, c), .f3 = d
#define AW__VALUES5(a, b, c, d, e)           AW__VALUES4(a, b, c, d), .f4 = e
#define AW__VALUES6(a, b, c, d, e, f)        AW__VALUES5(a, b, c, d, e), .f5 = f
#define AW__VALUES7(a, b, c, d, e, f, g)     AW__VALUES6(a, b, c, d, e, f), .f6 = g
#define AW__VALUES8(a, b, c, d, e, f, g, h)  AW__VALUES7(a, b, c, d, e, f, g), .f7 = h
#define AW__REFS1(a)                         &(a)->future
#define AW__REFS2(a, b)                      AW__REFS1(a), &(b)->future
#define AW__REFS3(a, b, c)                   AW__REFS2(a, b), &(c)->future
#define AW__REFS4(a, b, c, d)                AW__REFS3(a, b, c), &(d)->future
#define AW__REFS5(a, b, c, d, e)             AW__REFS4(a, b, c, d), &(e)->future
#define AW__REFS6(a, b, c, d, e, f)          AW__REFS5(a, b, c, d, e), &(f)->future
#define AW__REFS7(a, b, c, d, e, f, g)       AW__REFS6(a, b, c, d, e, f), &(g)->future
#define AW__REFS8(a, b, c, d, e, f, g, h)    AW__REFS7(a, b, c, d, e, f, g), &(h)->future

/* The type of a group of one to eight futures. For a value outside a frame give it a name:
 * typedef AW_JOIN(struct a, struct b) a_and_b; and then AW_JOIN_OF(a_and_b, a(...), b(...)). */
/* aw-future: AW_JOIN */
#define AW_JOIN(...) AW__GROUP_TYPE(AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
/* aw-future: AW_TRY_JOIN */
#define AW_TRY_JOIN(...) AW__GROUP_TYPE(AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
/* aw-future: AW_SELECT */
#define AW_SELECT(...) AW__GROUP_TYPE(AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define AW__GROUP_TYPE(n, ...)                                                                     \
    struct {                                                                                       \
        AW__GROUP_HEAD;                                                                            \
        uint32_t at[n];                                                                            \
        AW__CAT(AW__MEMBERS, n)(__VA_ARGS__)                                                       \
    }

#define AW__GROUP_OF(T, kind, mode, n, ...)                                                        \
    ((T){.future = AW_FUTURE_INIT(&kind),                                                          \
         .flags = mode,                                                                            \
         .count = n,                                                                               \
         .at = {AW__CAT(AW__AT, n)(T)},                                                            \
         AW__CAT(AW__VALUES, n)(__VA_ARGS__)})

#define AW_JOIN_OF(T, ...) AW__GROUP_OF(T, aw_join_type, 0, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define AW_JOIN_BIASED_OF(T, ...)                                                                  \
    AW__GROUP_OF(T, aw_join_type, AW__GROUP_BIASED, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define AW_TRY_JOIN_OF(T, ...)                                                                     \
    AW__GROUP_OF(T, aw_try_join_type, 0, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define AW_TRY_JOIN_BIASED_OF(T, ...)                                                              \
    AW__GROUP_OF(T, aw_try_join_type, AW__GROUP_BIASED, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define AW_SELECT_OF(T, ...)                                                                       \
    AW__GROUP_OF(T, aw_select_type, 0, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define AW_SELECT_BIASED_OF(T, ...)                                                                \
    AW__GROUP_OF(T, aw_select_type, AW__GROUP_BIASED, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)

#define AW_AWAIT_JOIN(child, ...) AW_AWAIT(child, AW_JOIN_OF(__typeof__(child), __VA_ARGS__))
#define AW_AWAIT_JOIN_BIASED(child, ...)                                                           \
    AW_AWAIT(child, AW_JOIN_BIASED_OF(__typeof__(child), __VA_ARGS__))
#define AW_AWAIT_TRY_JOIN(child, ...)                                                              \
    AW_AWAIT(child, AW_TRY_JOIN_OF(__typeof__(child), __VA_ARGS__))
#define AW_AWAIT_TRY_JOIN_BIASED(child, ...)                                                       \
    AW_AWAIT(child, AW_TRY_JOIN_BIASED_OF(__typeof__(child), __VA_ARGS__))
#define AW_AWAIT_SELECT(child, ...) AW_AWAIT(child, AW_SELECT_OF(__typeof__(child), __VA_ARGS__))
#define AW_AWAIT_SELECT_BIASED(child, ...)                                                         \
    AW_AWAIT(child, AW_SELECT_BIASED_OF(__typeof__(child), __VA_ARGS__))

/* The same over pointers to futures that stay where they are. */
#define AW__REFS_OF(kind, mode, n, ...)                                                            \
    aw__group_refs(&kind, AW__GROUP_REFS | (mode), n,                                              \
                   (aw_future *[]){AW__CAT(AW__REFS, n)(__VA_ARGS__)})
#define aw_join_refs(...)     AW__REFS_OF(aw_join_type, 0, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define aw_try_join_refs(...) AW__REFS_OF(aw_try_join_type, 0, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define aw_join_biased_refs(...)                                                                   \
    AW__REFS_OF(aw_join_type, AW__GROUP_BIASED, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define aw_try_join_biased_refs(...)                                                               \
    AW__REFS_OF(aw_try_join_type, AW__GROUP_BIASED, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define aw_select_refs(...) AW__REFS_OF(aw_select_type, 0, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)
#define aw_select_biased_refs(...)                                                                 \
    AW__REFS_OF(aw_select_type, AW__GROUP_BIASED, AW__COUNT8(__VA_ARGS__), __VA_ARGS__)

/* After a select: `for` each branch that finished, in order, the winner among them. Each is taken
 * as it is visited; a branch that is not visited has to be discarded with aw_select_drop. */
#define AW_SELECT_EACH(i, select) for (int i; (i = aw_select_next(select)) >= 0;)

#endif

/* The next finished branch that was not taken yet, or -1. Taking it is up to the caller from here. */
#define aw_select_next(select) aw__select_next(&(select)->future)
/* The branch that finished first; takes it and discards any other that finished. */
#define aw_select_winner(select) aw__select_winner(&(select)->future)
/* Discard what was not taken. */
#define aw_select_drop(select) aw_future_discard(&(select)->future)

/* A group of up to AW_GROUP_MAX futures by pointer, for erased code; `type` is one of the three. */
static inline aw_group aw_group_of(const aw_future_type *type, bool biased, unsigned count,
                                   aw_future *const *children) {
    return aw__group_refs(type, AW__GROUP_REFS | (biased ? AW__GROUP_BIASED : 0), count, children);
}

AW_C_END

#endif
