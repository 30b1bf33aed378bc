/* SPDX-License-Identifier: MIT
 *
 * Who holds what. Two kinds of entries:
 *
 *   holders   something that runs and borrows from the one that started it: it must be left exactly
 *             once, and before its parent is.
 *   tokens    something that is owned, such as an output: given back exactly once, by anyone.
 *
 * At the end of a test both are back to none. Any thread enters and gives back: who does so twice finds out, also
 * when two do it at once. Nothing here is ordered, so that a race of those who use it stays one; one thread alone resets
 * and checks it. */
#ifndef AWAKE_TEST_LEDGER_H
#define AWAKE_TEST_LEDGER_H

#include <string.h>

#include "support/notes.h"
#include "test.h"

enum { LEDGER_ENTRIES = 1 << 14 };

static struct {
    struct {
        int parent, children;
        bool inside;
    } holders[LEDGER_ENTRIES];
    bool tokens[LEDGER_ENTRIES];
    int last_holder, last_token; /* numbers begin with 1 and are used once */
    int inside, owned;
} ledger;

static inline void ledger_reset(void) {
    memset(ledger.holders, 0, sizeof ledger.holders[0] * (size_t)(ledger.last_holder + 1));
    memset(ledger.tokens, 0, sizeof ledger.tokens[0] * (size_t)(ledger.last_token + 1));
    ledger.last_holder = ledger.last_token = ledger.inside = ledger.owned = 0;
}

/* What it was before. */
static inline bool ledger_mark(bool *entry, bool now) {
    return __atomic_exchange_n(entry, now, __ATOMIC_RELAXED);
}

/* Parent 0: none. */
static inline int ledger_enter(int parent) {
    int id = ADD(ledger.last_holder, 1) + 1;
    CHECK_LT(id, LEDGER_ENTRIES);
    ledger.holders[id].parent = parent;
    ledger_mark(&ledger.holders[id].inside, true);
    if (parent) {
        if (!LOAD(ledger.holders[parent].inside))
            FAIL("a child was started by a parent that has left");
        ADD(ledger.holders[parent].children, 1);
    }
    ADD(ledger.inside, 1);
    return id;
}

static inline void ledger_leave(int id) {
    if (id <= 0 || id > LOAD(ledger.last_holder)) FAIL("holder %d was never there", id);
    if (LOAD(ledger.holders[id].children)) FAIL("a parent left before its children");
    if (!ledger_mark(&ledger.holders[id].inside, false)) FAIL("holder %d left twice", id);
    if (ledger.holders[id].parent) ADD(ledger.holders[ledger.holders[id].parent].children, -1);
    ADD(ledger.inside, -1);
}

static inline int ledger_token(void) {
    int id = ADD(ledger.last_token, 1) + 1;
    CHECK_LT(id, LEDGER_ENTRIES);
    ledger_mark(&ledger.tokens[id], true);
    ADD(ledger.owned, 1);
    return id;
}

static inline void ledger_give_back(int token) {
    if (token <= 0 || token > LOAD(ledger.last_token)) FAIL("token %d was never there", token);
    if (!ledger_mark(&ledger.tokens[token], false)) FAIL("token %d was given back twice", token);
    ADD(ledger.owned, -1);
}

static inline void ledger_check_balanced(void) {
    CHECK_EQ(LOAD(ledger.inside), 0);
    CHECK_EQ(LOAD(ledger.owned), 0);
}

#endif
