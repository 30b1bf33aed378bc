/* SPDX-License-Identifier: MIT
 *
 * The table of a driver: an entry is found in its slot, and nowhere else. */
#include "io/slots.h"

#include <string.h>

#include "support/memory.h"
#include "test.h"

enum { MANY = 1000 };

struct slot {
    uintptr_t slot;
    uint32_t age;
};

/* Objects with even addresses. */
static uint64_t objects[MANY];

TEST(what_is_put_in_is_found_in_its_slot_until_it_is_taken_out) {
    struct memory m;
    memory_init(&m);
    aw__slots s = {.size = sizeof(uintptr_t)};
    uint32_t at[MANY];
    for (int i = 0; i < MANY; i++)
        CHECK(aw__slots_put(&s, &m.allocator, &objects[i], &at[i]));
    for (int i = 0; i < MANY; i += 3)
        aw__slots_take(&s, at[i]);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(aw__slots_at(&s, at[i]), i % 3 ? &objects[i] : NULL);
    uint32_t found = 0;
    for (uint32_t i = 0; i < s.count; i++)
        found += aw__slots_at(&s, i) != NULL;
    CHECK_EQ(found, MANY - (MANY + 2) / 3);
    aw__slots_free(&s, &m.allocator);
    memory_check_empty(&m);
}

TEST(slots_are_reused_before_there_are_more_and_in_order_at_first) {
    struct memory m;
    memory_init(&m);
    aw__slots s = {.size = sizeof(struct slot)};
    uint32_t at;
    for (uint32_t i = 0; i < AW__SLOTS_ROW; i++) {
        CHECK(aw__slots_put(&s, &m.allocator, &objects[i], &at));
        CHECK_EQ(at, i);
    }
    for (int i = 0; i < MANY; i++) {
        aw__slots_take(&s, 7);
        CHECK(aw__slots_put(&s, &m.allocator, &objects[i], &at));
        CHECK_EQ(at, 7);
    }
    CHECK_EQ(s.count, AW__SLOTS_ROW);
    CHECK(aw__slots_put(&s, &m.allocator, &objects[0], &at));
    CHECK_EQ(at, AW__SLOTS_ROW);
    aw__slots_free(&s, &m.allocator);
    memory_check_empty(&m);
}

TEST(the_rest_of_a_slot_is_zero_at_first_and_then_the_users) {
    struct memory m;
    memory_init(&m);
    aw__slots s = {.size = sizeof(struct slot)};
    uint32_t at;
    for (uint32_t i = 0; i < 3 * AW__SLOTS_ROW; i++) {
        CHECK(aw__slots_put(&s, &m.allocator, &objects[i], &at));
        struct slot *slot = aw__slot(&s, at);
        CHECK_EQ(slot->age, 0);
        slot->age = i;
    }
    for (uint32_t i = 0; i < 3 * AW__SLOTS_ROW; i++)
        aw__slots_take(&s, i);
    for (uint32_t i = 0; i < 3 * AW__SLOTS_ROW; i++)
        CHECK_EQ(((struct slot *)aw__slot(&s, i))->age, i);
    aw__slots_free(&s, &m.allocator);
    memory_check_empty(&m);
}

TEST(without_memory_nothing_is_put_in_and_nothing_lost) {
    struct memory m;
    for (long fail = 1; fail < 20; fail++) {
        memory_init(&m);
        m.fail_at = fail;
        aw__slots s = {.size = sizeof(uintptr_t)};
        uint32_t at[MANY], refused = 0;
        for (int i = 0; i < MANY; i++)
            while (!aw__slots_put(&s, &m.allocator, &objects[i], &at[i]))
                refused++;
        CHECK_EQ(refused, 1);
        for (int i = 0; i < MANY; i++)
            CHECK_EQ(aw__slots_at(&s, at[i]), &objects[i]);
        aw__slots_free(&s, &m.allocator);
        memory_check_empty(&m);
    }
}
