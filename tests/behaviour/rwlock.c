/* SPDX-License-Identifier: MIT
 *
 * A lock for readers and writers: order, downgrade, cancelling; and many users at once. */
#include "support/by_hand.h"
#include "support/workers.h"

static bool is_free(const aw_rwlock *l) {
    return aw_rwlock_readers(l) == 0 && !l->permits.waiters.first && !l->permits.lock;
}

TEST(many_readers_or_one_writer) {
    aw_rwlock l = AW_RWLOCK_INIT;
    CHECK_EQ(aw_rwlock_try_read(&l), 0);
    CHECK_EQ(aw_rwlock_try_read(&l), 0);
    CHECK_EQ(aw_rwlock_readers(&l), 2);
    CHECK_EQ(aw_rwlock_try_write(&l), -EAGAIN);
    aw_rwlock_read_unlock(&l);
    CHECK_EQ(aw_rwlock_try_write(&l), -EAGAIN);
    aw_rwlock_read_unlock(&l);
    CHECK_EQ(aw_rwlock_try_write(&l), 0);
    CHECK_EQ(aw_rwlock_readers(&l), -1);
    CHECK_EQ(aw_rwlock_try_read(&l), -EAGAIN);
    CHECK_EQ(aw_rwlock_try_write(&l), -EAGAIN);
    aw_rwlock_write_unlock(&l);
    CHECK(is_free(&l));
}

TEST(a_writer_that_waits_keeps_later_readers_out) {
    aw_rwlock l = AW_RWLOCK_INIT;
    aw_flag flags[3] = {{0}};
    aw_rwlock_future writer = aw_rwlock_write(&l), a = aw_rwlock_read(&l), b = aw_rwlock_read(&l);
    CHECK_EQ(aw_rwlock_try_read(&l), 0);
    CHECK_EQ(POLL(&writer, &flags[0]), AW_PENDING);
    CHECK_EQ(POLL(&a, &flags[1]), AW_PENDING);
    CHECK_EQ(POLL(&b, &flags[2]), AW_PENDING);
    CHECK_EQ(aw_rwlock_try_read(&l), -EAGAIN);
    aw_rwlock_read_unlock(&l);
    CHECK(aw_flag_take(&flags[0]) && !aw_flag_take(&flags[1]) && !aw_flag_take(&flags[2]));
    CHECK_EQ(POLL(&writer, &flags[0]), AW_READY);
    CHECK_EQ(aw_rwlock_readers(&l), -1);
    aw_rwlock_write_unlock(&l);
    CHECK(aw_flag_take(&flags[1]) && aw_flag_take(&flags[2]));
    CHECK_EQ(POLL(&b, &flags[2]), AW_READY);
    CHECK_EQ(POLL(&a, &flags[1]), AW_READY);
    CHECK_EQ(aw_rwlock_readers(&l), 2);
    aw_rwlock_read_unlock(&l);
    aw_rwlock_read_unlock(&l);
    CHECK(is_free(&l));
}

TEST(a_writer_becomes_a_reader_and_lets_other_readers_in_but_no_writer) {
    aw_rwlock l = AW_RWLOCK_INIT;
    aw_flag flags[3] = {{0}};
    aw_rwlock_future a = aw_rwlock_read(&l), writer = aw_rwlock_write(&l), b = aw_rwlock_read(&l);
    CHECK_EQ(aw_rwlock_try_write(&l), 0);
    CHECK_EQ(POLL(&a, &flags[0]), AW_PENDING);
    CHECK_EQ(POLL(&writer, &flags[1]), AW_PENDING);
    CHECK_EQ(POLL(&b, &flags[2]), AW_PENDING);
    aw_rwlock_downgrade(&l);
    CHECK(aw_flag_take(&flags[0]) && !aw_flag_take(&flags[1]) && !aw_flag_take(&flags[2]));
    CHECK_EQ(POLL(&a, &flags[0]), AW_READY);
    CHECK_EQ(aw_rwlock_readers(&l), 2);
    aw_rwlock_read_unlock(&l);
    aw_rwlock_read_unlock(&l);
    CHECK_EQ(POLL(&writer, &flags[1]), AW_READY);
    aw_rwlock_write_unlock(&l);
    CHECK_EQ(POLL(&b, &flags[2]), AW_READY);
    aw_rwlock_read_unlock(&l);
    CHECK(is_free(&l));
}

TEST(unlocking_what_is_not_locked_ends_the_program) {
    aw_rwlock l = AW_RWLOCK_INIT;
    DIES(aw_rwlock_read_unlock(&l), "a rwlock was unlocked that is not locked");
    DIES(aw_rwlock_write_unlock(&l), "a rwlock was unlocked that is not locked");
    DIES(aw_rwlock_downgrade(&l), "a rwlock was unlocked that is not locked");
    CHECK_EQ(aw_rwlock_try_read(&l), 0);
    DIES(aw_rwlock_write_unlock(&l), "a rwlock was unlocked that is not locked");
    DIES(aw_rwlock_downgrade(&l), "a rwlock was unlocked that is not locked");
    aw_rwlock_read_unlock(&l);
    CHECK_EQ(aw_rwlock_try_write(&l), 0);
    DIES(aw_rwlock_read_unlock(&l), "a rwlock that is locked for writing was unlocked by");
}

/* cancel-at-every-await: aw_rwlock_read */
/* cancel-at-every-await: aw_rwlock_write */

static void cancelled_at_any_moment(aw_rwlock_future make(aw_rwlock *)) {
    aw_rwlock l = AW_RWLOCK_INIT;
    aw_flag flag = {0}, other = {0};
    aw_rwlock_future never_polled = make(&l);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);
    CHECK_EQ(aw_rwlock_try_write(&l), 0);
    aw_rwlock_future pending = make(&l), granted = make(&l), behind = make(&l);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(POLL(&granted, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    aw_rwlock_write_unlock(&l);
    CHECK_EQ(CANCEL(&granted, &other), AW_READY);
    CHECK_NE(aw_rwlock_readers(&l), 0);
    CHECK_EQ(aw_rwlock_try_write(&l), -EAGAIN);
    bool reads = aw_rwlock_readers(&l) == 1;
    CHECK_EQ(POLL(&behind, &other), reads ? AW_READY : AW_PENDING);
    aw_future_discard(&granted.future);
    if (!reads) CHECK_EQ(POLL(&behind, &other), AW_READY);
    DIES(CANCEL(&behind, &other), "cancelled after it had finished");
    aw_future_discard(&behind.future);
    CHECK(is_free(&l));
}

TEST(a_read_lock_can_be_cancelled_at_any_moment) {
    cancelled_at_any_moment(aw_rwlock_read);
}
TEST(a_write_lock_can_be_cancelled_at_any_moment) {
    cancelled_at_any_moment(aw_rwlock_write);
}

TEST(readers_go_on_when_the_writer_before_them_is_cancelled) {
    aw_rwlock l = AW_RWLOCK_INIT;
    aw_flag flag = {0}, a = {0};
    aw_rwlock_future writer = aw_rwlock_write(&l), reader = aw_rwlock_read(&l);
    CHECK_EQ(aw_rwlock_try_read(&l), 0);
    CHECK_EQ(POLL(&writer, &flag), AW_PENDING);
    CHECK_EQ(POLL(&reader, &a), AW_PENDING);
    CHECK_EQ(CANCEL(&writer, &flag), AW_CANCELLED);
    CHECK(aw_flag_take(&a));
    CHECK_EQ(POLL(&reader, &a), AW_READY);
    CHECK_EQ(aw_rwlock_readers(&l), 2);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

typedef struct book {
    aw_rwlock lock;
    uint32_t readers, writers; /* atomic */
    int pages[2];              /* guarded: always equal */
} book;

static void read_page(book *b) {
    ADD(b->readers, 1);
    CHECK_EQ(LOAD(b->writers), 0);
    CHECK_EQ(b->pages[0], b->pages[1]);
    ADD(b->readers, -1);
}
static void write_page(book *b) {
    CHECK_EQ(ADD(b->writers, 1), 0);
    CHECK_EQ(LOAD(b->readers), 0);
    b->pages[0]++;
    b->pages[1]++;
    ADD(b->writers, -1);
}

AW_ASYNC(int, reads_and_writes, book *b; int times; int i; aw_rwlock_future lock; aw_yield pause;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->times; self->i++) {
        if (self->i % 3 == 0) {
            AW_AWAIT(self->lock, aw_rwlock_write(&self->b->lock));
            write_page(self->b);
            aw_rwlock_downgrade(&self->b->lock);
        } else {
            AW_AWAIT(self->lock, aw_rwlock_read(&self->b->lock));
        }
        read_page(self->b);
        if (self->i % 4 == 0) AW_AWAIT(self->pause, aw_yield_now());
        read_page(self->b);
        aw_rwlock_read_unlock(&self->b->lock);
    }
    AW_RETURN(0);
    AW_END;
}

static void thread_reads_and_writes(void *arg, int index, uint64_t *random) {
    book *b = arg;
    for (int i = 0; i < 60; i++) {
        bool write = i % 3 == 0;
        uint64_t patience = index ? test_random(random) % AW_USEC(50) : AW_FOREVER;
        if (write ? aw_wait_for(patience, aw_rwlock_write(&b->lock))
                  : aw_wait_for(patience, aw_rwlock_read(&b->lock)))
            continue;
        write ? write_page(b) : read_page(b);
        write ? aw_rwlock_write_unlock(&b->lock) : aw_rwlock_read_unlock(&b->lock);
    }
}

ON_BOTH(readers_and_writers_do_not_meet) {
    enum { TASKS = 8, TIMES = 60 };
    uint64_t random = test_seed();
    book b = {.lock = AW_RWLOCK_INIT};
    struct reads_and_writes *h[TASKS];
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    thread_group threads;
    thread_group_create(&threads, 3, &random, thread_reads_and_writes, &b);
    thread_group_go(&threads);
    for (int i = 0; i < TASKS; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(reads_and_writes, .b = &b, .times = TIMES));
    for (int i = 0; i < TASKS; i++) {
        must_finish(rt, &h[i]->future);
        aw_task_drop(h[i]);
    }
    thread_group_join(&threads);
    CHECK(is_free(&b.lock));
    CHECK_GE(b.pages[0], TASKS * TIMES / 3);
    workers_end(rt, NULL);
}
