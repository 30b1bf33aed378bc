/* SPDX-License-Identifier: MIT
 *
 * awake/group.h: join, try_join and select over a fixed set of futures of different types.
 *
 *     AW_ASYNC(int, both, AW_JOIN(struct fetch, aw_sleep) j;) {
 *         AW_BEGIN;
 *         AW_AWAIT_JOIN(self->j, AW_CALL(fetch, .url = u), aw_sleep_for(AW_SEC(1)));
 *         AW_RETURN(self->j.f0.out);
 *         AW_END;
 *     }
 *
 *   join      Ends when all children have; `out` is 0. A cancelled join ends as cancelled if a
 *             child was cancelled (the outputs of the others are discarded), and as finished if
 *             all children finished.
 *   try_join  For outputs that carry errors. The first negative output cancels the other children
 *             and discards their outputs; `out` is that error.
 *   select    Ends when the first child has finished and the others have ended. `out` has a bit for
 *             each child that finished: one that finishes while it is being cancelled is not lost.
 *             Visit them with AW_SELECT_EACH, or take the first with aw_select_winner, which
 *             discards the others.
 *
 * The children are held by value, as members f0 to f7, so you can move a group before its first
 * poll and spawn it. Each poll visits the children that have not ended, and begins with a different
 * one each time; AW_..._BIASED always polls from first to last. For more children, or an array, see
 * awake/join_all.h.
 *
 * When the budget of a poll (aw_cx_spend) is used up, a select yields as a whole and decides in the
 * next poll. So in a biased select a lower branch never wins because a higher one had to yield. A
 * branch that always uses up the budget keeps all lower ones from winning: put your stop signal
 * first.
 *
 * In an async function the children may also be members of the frame, held by pointer (the frame is
 * pinned by then): AW_AWAIT(self->j, aw_join_refs(&self->a, &self->b)); with an `aw_group` as j. */
#ifndef AWAKE_GROUP_H
#define AWAKE_GROUP_H

#include <awake/async.h>
#include <awake/detail/group.h>
#include <awake/future.h>

AW_C_BEGIN

#define AW_GROUP_MAX 8

/* A group that holds pointers: only for pinned frames. */
/* aw-future: aw_group */
typedef struct aw_group {
    AW__GROUP_HEAD;
    aw_future *child[AW_GROUP_MAX];
} aw_group;

AW_API extern const aw_future_type aw_join_type;
AW_API extern const aw_future_type aw_try_join_type;
AW_API extern const aw_future_type aw_select_type;

#ifndef __cplusplus

/* The type of a group of one to eight futures. Outside a frame, give the type a name: typedef
 * AW_JOIN(struct a, struct b) a_and_b; and then AW_JOIN_OF(a_and_b, a(...), b(...)). */
/* aw-future: AW_JOIN */
#define AW_JOIN(...) AW__GROUP(__VA_ARGS__)
/* aw-future: AW_TRY_JOIN */
#define AW_TRY_JOIN(...) AW__GROUP(__VA_ARGS__)
/* aw-future: AW_SELECT */
#define AW_SELECT(...) AW__GROUP(__VA_ARGS__)

#define AW_JOIN_OF(T, ...)        AW__GROUP_OF(T, aw_join_type, 0, __VA_ARGS__)
#define AW_JOIN_BIASED_OF(T, ...) AW__GROUP_OF(T, aw_join_type, AW__GROUP_BIASED, __VA_ARGS__)
#define AW_TRY_JOIN_OF(T, ...)    AW__GROUP_OF(T, aw_try_join_type, 0, __VA_ARGS__)
#define AW_TRY_JOIN_BIASED_OF(T, ...)                                                              \
    AW__GROUP_OF(T, aw_try_join_type, AW__GROUP_BIASED, __VA_ARGS__)
#define AW_SELECT_OF(T, ...)        AW__GROUP_OF(T, aw_select_type, 0, __VA_ARGS__)
#define AW_SELECT_BIASED_OF(T, ...) AW__GROUP_OF(T, aw_select_type, AW__GROUP_BIASED, __VA_ARGS__)

#define AW_AWAIT_JOIN(child, ...) AW__AWAIT_GROUP(child, aw_join_type, 0, __VA_ARGS__)
#define AW_AWAIT_JOIN_BIASED(child, ...)                                                           \
    AW__AWAIT_GROUP(child, aw_join_type, AW__GROUP_BIASED, __VA_ARGS__)
#define AW_AWAIT_TRY_JOIN(child, ...) AW__AWAIT_GROUP(child, aw_try_join_type, 0, __VA_ARGS__)
#define AW_AWAIT_TRY_JOIN_BIASED(child, ...)                                                       \
    AW__AWAIT_GROUP(child, aw_try_join_type, AW__GROUP_BIASED, __VA_ARGS__)
#define AW_AWAIT_SELECT(child, ...) AW__AWAIT_GROUP(child, aw_select_type, 0, __VA_ARGS__)
#define AW_AWAIT_SELECT_BIASED(child, ...)                                                         \
    AW__AWAIT_GROUP(child, aw_select_type, AW__GROUP_BIASED, __VA_ARGS__)

/* The same over pointers to futures that stay where they are. */
#define aw_join_refs(...)        AW__GROUP_REFS_OF(aw_join_type, 0, __VA_ARGS__)
#define aw_join_biased_refs(...) AW__GROUP_REFS_OF(aw_join_type, AW__GROUP_BIASED, __VA_ARGS__)
#define aw_try_join_refs(...)    AW__GROUP_REFS_OF(aw_try_join_type, 0, __VA_ARGS__)
#define aw_try_join_biased_refs(...)                                                               \
    AW__GROUP_REFS_OF(aw_try_join_type, AW__GROUP_BIASED, __VA_ARGS__)
#define aw_select_refs(...)        AW__GROUP_REFS_OF(aw_select_type, 0, __VA_ARGS__)
#define aw_select_biased_refs(...) AW__GROUP_REFS_OF(aw_select_type, AW__GROUP_BIASED, __VA_ARGS__)

/* After a select: loop over the branches that finished, in order, including the winner. Visiting a
 * branch takes it. Discard the branches that you do not visit with aw_select_drop. */
#define AW_SELECT_EACH(i, select) for (int i; (i = aw_select_next(select)) >= 0;)

#endif

/* The next finished branch that was not taken yet, or -1. Its output is then yours. */
#define aw_select_next(select) aw__select_next(&(select)->future)
AW_API int aw__select_next(aw_future *select);
/* Take the branch that finished first, and discard all others that finished. */
#define aw_select_winner(select) aw__select_winner(&(select)->future)
AW_API int aw__select_winner(aw_future *select);
/* Discard the branches that were not taken. */
#define aw_select_drop(select) aw_future_discard(&(select)->future)

AW_API aw_group aw__group_refs(const aw_future_type *type, unsigned flags,
                               aw_future *const *children, unsigned count);

/* Type-erased: up to AW_GROUP_MAX futures by pointer. `type` is one of the three above. */
static inline aw_group aw_group_of(const aw_future_type *type, bool biased,
                                   aw_future *const *children, unsigned count) {
    return aw__group_refs(type, AW__GROUP_REFS | (biased ? AW__GROUP_BIASED : 0), children, count);
}

AW_C_END

#endif
