// All locks and everything that waits like one, in C++, without a warning.
// MUST COMPILE
// lang: c++
// flags: -Wpedantic -Werror
#include <awake.h>

static aw_mutex mutex = AW_MUTEX_INIT;
static aw_semaphore semaphore = AW_SEMAPHORE_INIT(3);
static aw_rwlock rwlock = AW_RWLOCK_INIT;
static aw_condvar condvar = AW_CONDVAR_INIT;
static aw_barrier barrier = AW_BARRIER_INIT(1);
static aw_wait_group group = AW_WAIT_GROUP_INIT;
static AW_ONCE_CELL(double) cell;

int main() {
    aw_token *token = aw_token_new();
    aw_token_cancel(token);
    int n = aw_wait(aw_token_cancelled(token)) + aw_wait(aw_mutex_lock(&mutex));
    n += aw_wait_for(AW_MSEC(1), aw_condvar_wait(&condvar, &mutex));
    n += aw_mutex_try_lock(&mutex) + aw_wait(aw_semaphore_acquire(&semaphore, 1));
    n += aw_wait(aw_rwlock_read(&rwlock)) + aw_wait(aw_barrier_wait(&barrier)) + aw_wait(aw_wait_group_wait(&group));
    if (aw_wait(aw_once_enter(&cell)) == 1) aw_once_set(&cell, 2.5);
    aw_token_drop(token);
    return n + (aw_once_get(&cell) ? 1 : 0);
}
