/* SPDX-License-Identifier: MIT
 *
 * The size of the frame of an async function, with and without shared storage. */
#include <awake.h>

#include <string.h>

#include "support/checked_waker.h"
#include "test.h"

/* Ten different children. Each checks that its storage is zero when it starts, whatever was
 * there before, and unchanged after an await. */
#define CHILD(name, size)                                                                          \
    AW_ASYNC(int, name, int n; unsigned char storage[size]; aw_yield pause;) {                     \
        AW_BEGIN;                                                                                  \
        for (size_t i = 0; i < sizeof self->storage; i++)                                          \
            CHECK_EQ(self->storage[i], 0);                                                         \
        memset(self->storage, self->n, sizeof self->storage);                                      \
        AW_AWAIT(self->pause, aw_yield_now());                                                     \
        for (size_t i = 0; i < sizeof self->storage; i++)                                          \
            CHECK_EQ(self->storage[i], self->n);                                                   \
        AW_RETURN(self->n);                                                                        \
        AW_END;                                                                                    \
    }
CHILD(c0, 100)
CHILD(c1, 200)
CHILD(c2, 300)
CHILD(c3, 400)
CHILD(c4, 1000)
CHILD(c5, 900)
CHILD(c6, 800)
CHILD(c7, 700)
CHILD(c8, 600)
CHILD(c9, 500)

/* Written twice: a macro for the body would put ten awaits on one line. */
AW_ASYNC(int, separate, int sum; struct c0 f0; struct c1 f1; struct c2 f2; struct c3 f3;
         struct c4 f4; struct c5 f5; struct c6 f6; struct c7 f7; struct c8 f8; struct c9 f9;) {
    AW_BEGIN;
    AW_AWAIT(self->f0, AW_CALL(c0, .n = 1));
    self->sum += self->f0.out;
    AW_AWAIT(self->f1, AW_CALL(c1, .n = 2));
    self->sum += self->f1.out;
    AW_AWAIT(self->f2, AW_CALL(c2, .n = 3));
    self->sum += self->f2.out;
    AW_AWAIT(self->f3, AW_CALL(c3, .n = 4));
    self->sum += self->f3.out;
    AW_AWAIT(self->f4, AW_CALL(c4, .n = 5));
    self->sum += self->f4.out;
    AW_AWAIT(self->f5, AW_CALL(c5, .n = 6));
    self->sum += self->f5.out;
    AW_AWAIT(self->f6, AW_CALL(c6, .n = 7));
    self->sum += self->f6.out;
    AW_AWAIT(self->f7, AW_CALL(c7, .n = 8));
    self->sum += self->f7.out;
    AW_AWAIT(self->f8, AW_CALL(c8, .n = 9));
    self->sum += self->f8.out;
    AW_AWAIT(self->f9, AW_CALL(c9, .n = 10));
    AW_RETURN(self->sum + self->f9.out);
    AW_END;
}

AW_ASYNC(int, shared, int sum;
         AW_SHARE(struct c0 f0; struct c1 f1; struct c2 f2; struct c3 f3; struct c4 f4;
                  struct c5 f5; struct c6 f6; struct c7 f7; struct c8 f8; struct c9 f9;);) {
    AW_BEGIN;
    AW_AWAIT(self->f0, AW_CALL(c0, .n = 1));
    self->sum += self->f0.out;
    AW_AWAIT(self->f1, AW_CALL(c1, .n = 2));
    self->sum += self->f1.out;
    AW_AWAIT(self->f2, AW_CALL(c2, .n = 3));
    self->sum += self->f2.out;
    AW_AWAIT(self->f3, AW_CALL(c3, .n = 4));
    self->sum += self->f3.out;
    AW_AWAIT(self->f4, AW_CALL(c4, .n = 5));
    self->sum += self->f4.out;
    AW_AWAIT(self->f5, AW_CALL(c5, .n = 6));
    self->sum += self->f5.out;
    AW_AWAIT(self->f6, AW_CALL(c6, .n = 7));
    self->sum += self->f6.out;
    AW_AWAIT(self->f7, AW_CALL(c7, .n = 8));
    self->sum += self->f7.out;
    AW_AWAIT(self->f8, AW_CALL(c8, .n = 9));
    self->sum += self->f8.out;
    AW_AWAIT(self->f9, AW_CALL(c9, .n = 10));
    AW_RETURN(self->sum + self->f9.out);
    AW_END;
}

TEST(children_that_share_their_storage_take_that_of_the_largest) {
    size_t sum = sizeof(struct c0) + sizeof(struct c1) + sizeof(struct c2) + sizeof(struct c3) +
                 sizeof(struct c4) + sizeof(struct c5) + sizeof(struct c6) + sizeof(struct c7) +
                 sizeof(struct c8) + sizeof(struct c9);
    /* Apart from the children: the header, the output and one int. */
    size_t overhead = sizeof(aw_future) + 16;
    CHECK_GE(sizeof(struct separate), sum);
    CHECK_LE(sizeof(struct separate), sum + overhead);
    CHECK_GE(sizeof(struct shared), sizeof(struct c4));
    CHECK_LE(sizeof(struct shared), sizeof(struct c4) + overhead);
}

TEST(ten_awaits_give_the_same_in_separate_and_in_shared_storage) {
    struct separate a = AW_CALL(separate);
    struct shared b = AW_CALL(shared);
    CHECK_EQ(drive_poll_to_end(&a.future), AW_READY);
    CHECK_EQ(drive_poll_to_end(&b.future), AW_READY);
    CHECK_EQ(a.out, 55);
    CHECK_EQ(b.out, 55);
}

AW_ASYNC(int, cleans_up, AW_SHARE(struct c0 body; struct c1 cleanup;);) {
    AW_BEGIN;
    AW_AWAIT(self->body, AW_CALL(c0, .n = 1));
    AW_RETURN(self->body.out);
    AW_FINALLY;
    if (AW_STARTED) AW_AWAIT(self->cleanup, AW_CALL(c1, .n = 2));
    AW_END;
}

TEST(cleanup_may_share_its_storage_with_a_cancelled_child) {
    struct cleans_up f = AW_CALL(cleans_up);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(f.cleanup.out, 2);
}

AW_ASYNC(int, empty) {
    AW_BEGIN;
    AW_RETURN(1);
    AW_END;
}
AW_ASYNC(void, emptier) {
    AW_BEGIN;
    AW_RETURN_VOID;
    AW_END;
}
AW_ASYNC(int, wraps_empty, struct empty e;) {
    AW_BEGIN;
    AW_AWAIT(self->e, AW_CALL(empty));
    AW_RETURN(self->e.out);
    AW_END;
}

TEST(a_frame_has_three_words_and_what_was_asked_for) {
    CHECK_LE(sizeof(struct empty), 24);
    CHECK_LE(sizeof(struct emptier), 24);
    CHECK_LE(sizeof(struct wraps_empty), 48);
}

TEST(a_type_says_the_size_of_its_frame) {
    CHECK_EQ(aw_type_shared.size, sizeof(struct shared));
    CHECK_EQ(aw_type_empty.self_size, sizeof(aw_future_type));
    CHECK_EQ(aw_type_empty.out_offset, offsetof(struct empty, out));
    CHECK_EQ(aw_type_empty.out_size, sizeof(int));
}
