/* SPDX-License-Identifier: MIT
 *
 * Who holds what. Two kinds of entries:
 *
 *   holders   something that runs and borrows from the one that started it: it must be left exactly
 *             once, and before its parent is.
 *   tokens    something that is owned, such as an output: given back exactly once, by anyone.
 *
 * At the end of a test both are back to none. For one thread. */
#ifndef AWAKE_TEST_LEDGER_H
#define AWAKE_TEST_LEDGER_H

#include <string.h>

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

/* Parent 0: none. */
static inline int ledger_enter(int parent) {
    int id = ++ledger.last_holder;
    CHECK_LT(id, LEDGER_ENTRIES);
    ledger.holders[id].parent = parent;
    ledger.holders[id].inside = true;
    if (parent) {
        if (!ledger.holders[parent].inside) FAIL("a child was started by a parent that has left");
        ledger.holders[parent].children++;
    }
    ledger.inside++;
    return id;
}

static inline void ledger_leave(int id) {
    if (id <= 0 || id > ledger.last_holder) FAIL("holder %d was never there", id);
    if (!ledger.holders[id].inside) FAIL("holder %d left twice", id);
    if (ledger.holders[id].children) FAIL("a parent left before its children");
    ledger.holders[id].inside = false;
    if (ledger.holders[id].parent) ledger.holders[ledger.holders[id].parent].children--;
    ledger.inside--;
}

static inline int ledger_token(void) {
    int id = ++ledger.last_token;
    CHECK_LT(id, LEDGER_ENTRIES);
    ledger.tokens[id] = true;
    ledger.owned++;
    return id;
}

static inline void ledger_give_back(int token) {
    if (token <= 0 || token > ledger.last_token) FAIL("token %d was never there", token);
    if (!ledger.tokens[token]) FAIL("token %d was given back twice", token);
    ledger.tokens[token] = false;
    ledger.owned--;
}

static inline void ledger_check_balanced(void) {
    CHECK_EQ(ledger.inside, 0);
    CHECK_EQ(ledger.owned, 0);
}

#endif
