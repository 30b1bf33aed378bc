/* SPDX-License-Identifier: MIT
 *
 * A spawn into a scope that fails returns its slot: a child that waits for a slot starts. */
#include <awake.h>

#include <errno.h>
#include <stdlib.h>

#include "support/scopes.h"

ALL_ON_THIS_THREAD("the allocator of the test spawns into the scope");

static aw_scope *scope;
static bool refuse;
static uint32_t ended;

AW_ASYNC(int, counted_child) {
    AW_BEGIN;
    ended++;
    AW_RETURN(0);
    AW_END;
}

/* While the first spawn allocates: a limit of one is set, and a second child waits for its slot. */
static void *allocate(void *data, size_t size) {
    (void)data;
    if (!refuse) return malloc(size);
    refuse = false;
    aw_scope_limit(scope, 1);
    CHECK_EQ(aw_scope_spawn(scope, AW_CALL(counted_child)), 0);
    return NULL;
}
static void deallocate(void *data, void *p, size_t size) {
    (void)data, (void)size;
    free(p);
}

AW_ASYNC(int, body, aw_scope *scope;) {
    AW_BEGIN;
    scope = self->scope;
    refuse = true;
    CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(counted_child)), -ENOMEM);
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct body) body_scope;

TEST(a_child_that_waits_for_the_slot_of_a_failed_spawn_starts) {
    const aw_allocator allocator = {allocate, deallocate, NULL};
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = AW_CURRENT_THREAD;
    o.allocator = &allocator;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_block_on(rt, AW_SCOPE_OF(body_scope, AW_CALL(body))), 0);
    CHECK_EQ(ended, 1);
    aw_runtime_free(rt);
}
