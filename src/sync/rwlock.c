/* SPDX-License-Identifier: MIT
 *
 * Reader-writer lock: a semaphore of which a reader takes one permit and a writer takes all. Queue
 * order, hand-over and cancellation are those of semaphore.c. */
#include <awake/rwlock.h>

#include "base/misuse.h"
#include "sync/acquire.h"

enum { ALL_PERMITS = AW_RWLOCK_READERS };

int aw_rwlock_try_read(aw_rwlock *l) {
    return aw_semaphore_try_acquire(&l->permits, 1);
}

int aw_rwlock_try_write(aw_rwlock *l) {
    return aw_semaphore_try_acquire(&l->permits, ALL_PERMITS);
}

static void rwlock_release(aw_rwlock *l, uint32_t permits) {
    if (AW__UNLIKELY(aw_semaphore_release(&l->permits, permits)))
        aw__misuse("a rwlock was unlocked that is not locked in this mode");
}

/* No permits are available only while a writer holds all of them. The load cannot be stale for a
 * correct caller: a reader sees the count of its own acquisition, or a later one. */
void aw_rwlock_read_unlock(aw_rwlock *l) {
    if (AW__UNLIKELY(!aw_semaphore_available(&l->permits)))
        aw__misuse("a rwlock that is locked for writing was unlocked by aw_rwlock_read_unlock: use "
                   "aw_rwlock_write_unlock");
    rwlock_release(l, 1);
}

void aw_rwlock_write_unlock(aw_rwlock *l) {
    rwlock_release(l, ALL_PERMITS);
}

void aw_rwlock_downgrade(aw_rwlock *l) {
    rwlock_release(l, ALL_PERMITS - 1);
}

int32_t aw_rwlock_readers(const aw_rwlock *l) {
    uint32_t held = ALL_PERMITS - aw_semaphore_available(&l->permits);
    return held == ALL_PERMITS ? -1 : (int32_t)held;
}

const aw_future_type aw_rwlock_read_type = {
    AW_TYPE_OF(aw_rwlock_future, "rwlock_read"),
    .flags = AW_OUT_ERRNO,
    .poll = aw__acquire_poll,
    .cancel = aw__acquire_cancel,
    .discard = aw__acquire_discard,
};

const aw_future_type aw_rwlock_write_type = {
    AW_TYPE_OF(aw_rwlock_future, "rwlock_write"),
    .flags = AW_OUT_ERRNO,
    .poll = aw__acquire_poll,
    .cancel = aw__acquire_cancel,
    .discard = aw__acquire_discard,
};
