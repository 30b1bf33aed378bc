/* SPDX-License-Identifier: MIT
 *
 * A lock for readers and writers is a semaphore of which a reader takes one permit and a writer all: order, handing
 * over and cancelling are those of semaphore.c. */
#include <awake/rwlock.h>

#include "core/misuse.h"
#include "sync/semaphore.h"

enum { ALL = AW_RWLOCK_READERS };

int aw_rwlock_try_read(aw_rwlock *l) {
    return aw_semaphore_try_acquire(&l->permits, 1);
}

int aw_rwlock_try_write(aw_rwlock *l) {
    return aw_semaphore_try_acquire(&l->permits, ALL);
}

static void unlock(aw_rwlock *l, uint32_t permits) {
    if (AW__UNLIKELY(aw_semaphore_release(&l->permits, permits)))
        aw__misuse("a rwlock is unlocked that is not locked in this way");
}

void aw_rwlock_read_unlock(aw_rwlock *l) {
    unlock(l, 1);
}

void aw_rwlock_write_unlock(aw_rwlock *l) {
    unlock(l, ALL);
}

void aw_rwlock_downgrade(aw_rwlock *l) {
    unlock(l, ALL - 1);
}

int32_t aw_rwlock_readers(const aw_rwlock *l) {
    uint32_t taken = ALL - aw_semaphore_available(&l->permits);
    return taken == ALL ? -1 : (int32_t)taken;
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
