// All locks and everything that waits like one, in strict C11, without a warning.
// MUST COMPILE
// flags: -Wpedantic -Werror -Wshadow -Wstrict-prototypes
#include <awake.h>

#include <errno.h>

static aw_mutex mutex = AW_MUTEX_INIT;
static aw_semaphore semaphore = AW_SEMAPHORE_INIT(3);
static aw_rwlock rwlock = AW_RWLOCK_INIT;
static aw_condvar condvar = AW_CONDVAR_INIT;
static aw_barrier barrier = AW_BARRIER_INIT(1);
static aw_wait_group group = AW_WAIT_GROUP_INIT;
static AW_ONCE_CELL(double) cell;

AW_ASYNC(int, locks, aw_token *token; aw_mutex_lock_future lock; aw_acquire acquire; aw_rwlock_future rw;
         AW_TIMEOUT(aw_condvar_wait_future) wait; aw_barrier_wait_future meet; aw_wait_group_future all;
         aw_once_future once; aw_token_future told;) {
    AW_BEGIN;
    AW_AWAIT(self->lock, aw_mutex_lock(&mutex));
    AW_AWAIT_FOR(self->wait, AW_MSEC(1), aw_condvar_wait(&condvar, &mutex));
    aw_mutex_unlock(&mutex);
    AW_AWAIT(self->acquire, aw_semaphore_acquire(&semaphore, 2));
    if (aw_semaphore_release(&semaphore, 2) < 0) AW_RETURN(1);
    AW_AWAIT(self->rw, aw_rwlock_write(&rwlock));
    aw_rwlock_downgrade(&rwlock);
    aw_rwlock_read_unlock(&rwlock);
    AW_AWAIT(self->meet, aw_barrier_wait(&barrier));
    AW_AWAIT(self->all, aw_wait_group_wait(&group));
    AW_AWAIT(self->once, aw_once_enter(&cell));
    if (self->once.out == 1) aw_once_set(&cell, 1.5);
    AW_AWAIT(self->told, aw_token_cancelled(self->token));
    AW_RETURN(aw_once_get(&cell) ? (int)*aw_once_get(&cell) : 0);
    AW_END;
}

AW_FIBER(int, lock_in_fiber, aw_mutex *mutex;) {
    int err = aw_await(aw_mutex_lock(self->mutex));
    if (err) return err;
    err = aw_await_for(AW_MSEC(1), aw_condvar_wait(&condvar, self->mutex));
    aw_mutex_unlock(self->mutex);
    return err;
}

int main(void) {
    aw_token *token = aw_token_new(), *child = aw_token_child(token);
    aw_token_cancel(token);
    int n = aw_run(AW_CALL(locks, .token = child)) + aw_run(AW_CALL(lock_in_fiber, .mutex = &mutex));
    aw_token_drop(token);
    aw_token_drop(child);
    n += aw_wait(aw_mutex_lock(&mutex)) + aw_wait_for(AW_SEC(1), aw_semaphore_acquire(&semaphore, 1));
    n += aw_mutex_try_lock(&mutex) == -EAGAIN && aw_once_try_enter(&cell) == 0;
    return n;
}
