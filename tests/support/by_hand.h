/* SPDX-License-Identifier: MIT
 *
 * Polls a future without an executor. The waker of each call is a flag, so that a test sees
 * which of its wakers was woken. */
#ifndef AWAKE_TEST_BY_HAND_H
#define AWAKE_TEST_BY_HAND_H

#include <awake.h>

#define POLL(f, flag)   poll_by_hand(&(f)->future, flag)
#define CANCEL(f, flag) cancel_by_hand(&(f)->future, flag)
/* Cancels until the future has ended: operations in flight must complete first. */
#define CANCEL_TO_ITS_END(f, flag) cancel_to_its_end(&(f)->future, flag)

static inline aw_poll poll_by_hand(aw_future *f, aw_flag *flag) {
    aw_waker waker = aw_flag_waker(flag);
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_poll(f, &cx);
}

static inline aw_poll cancel_by_hand(aw_future *f, aw_flag *flag) {
    aw_waker waker = aw_flag_waker(flag);
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_cancel(f, &cx);
}

static inline aw_poll cancel_to_its_end(aw_future *f, aw_flag *flag) {
    aw_poll how = AW_PENDING;
    while (how == AW_PENDING)
        how = cancel_by_hand(f, flag);
    return how;
}

#endif
