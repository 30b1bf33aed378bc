/* SPDX-License-Identifier: MIT
 *
 * Tracks ownership, with two kinds of entries:
 *
 *   holders   running code that borrows from its parent, the holder that started it. A holder must
 *             leave exactly once, and before its parent leaves.
 *   tokens    owned values, such as outputs. A token must be released exactly once, by any thread.
 *
 * At the end of a test there must be none of either. All threads may enter, leave and release; a
 * double release is found even if two threads race for it. The operations are relaxed, so that a
 * data race in the code under test stays visible to TSan. Only one thread may reset and check. */
#ifndef AWAKE_TEST_OWNERSHIP_H
#define AWAKE_TEST_OWNERSHIP_H

#include <string.h>

#include "support/atomics.h"
#include "test.h"

enum { OWNERSHIP_ENTRIES = 1 << 14 };

static struct {
    struct {
        int parent, children;
        bool inside;
    } holders[OWNERSHIP_ENTRIES];
    bool tokens[OWNERSHIP_ENTRIES];
    int last_holder, last_token; /* numbers start at 1 and are not reused */
    int inside, owned;
} ownership;

static inline void ownership_reset(void) {
    memset(ownership.holders, 0, sizeof ownership.holders[0] * (size_t)(ownership.last_holder + 1));
    memset(ownership.tokens, 0, sizeof ownership.tokens[0] * (size_t)(ownership.last_token + 1));
    ownership.last_holder = ownership.last_token = ownership.inside = ownership.owned = 0;
}

/* Returns the previous value. */
static inline bool ownership_mark(bool *entry, bool now) {
    return __atomic_exchange_n(entry, now, __ATOMIC_RELAXED);
}

/* Parent 0: none. */
static inline int ownership_enter(int parent) {
    int id = ADD(ownership.last_holder, 1) + 1;
    CHECK_LT(id, OWNERSHIP_ENTRIES);
    ownership.holders[id].parent = parent;
    ownership_mark(&ownership.holders[id].inside, true);
    if (parent) {
        if (!LOAD(ownership.holders[parent].inside))
            FAIL("a holder was started by a parent that has left");
        ADD(ownership.holders[parent].children, 1);
    }
    ADD(ownership.inside, 1);
    return id;
}

static inline void ownership_leave(int id) {
    if (id <= 0 || id > LOAD(ownership.last_holder)) FAIL("holder %d does not exist", id);
    if (LOAD(ownership.holders[id].children)) FAIL("a parent left before its children");
    if (!ownership_mark(&ownership.holders[id].inside, false)) FAIL("holder %d left twice", id);
    if (ownership.holders[id].parent)
        ADD(ownership.holders[ownership.holders[id].parent].children, -1);
    ADD(ownership.inside, -1);
}

static inline int ownership_token(void) {
    int id = ADD(ownership.last_token, 1) + 1;
    CHECK_LT(id, OWNERSHIP_ENTRIES);
    ownership_mark(&ownership.tokens[id], true);
    ADD(ownership.owned, 1);
    return id;
}

static inline void ownership_release(int token) {
    if (token <= 0 || token > LOAD(ownership.last_token)) FAIL("token %d does not exist", token);
    if (!ownership_mark(&ownership.tokens[token], false))
        FAIL("token %d was released twice", token);
    ADD(ownership.owned, -1);
}

static inline void ownership_check_balanced(void) {
    CHECK_EQ(LOAD(ownership.inside), 0);
    CHECK_EQ(LOAD(ownership.owned), 0);
}

#endif
