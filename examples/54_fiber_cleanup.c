/* SPDX-License-Identifier: MIT
 *
 * A cancelled fiber cleans up, in plain C.
 *
 * Cancelling makes no jump: the await in which the fiber waits returns -ECANCELED, as if the other side
 * had failed, and so does each one after it. The fiber goes the way that it goes on any error, down to
 * its cleanup. Only where cleanup itself has to wait there is something to say: in an AW_SHIELD awaits
 * are waited for as usual. The timeout or the join that asked is told when all of that is over.
 *
 * -ECANCELED may also come from somebody else who was cancelled. aw_cancelled() tells whether it is us.
 *
 * Notice the last session: it was never entered, so there is no stack and nothing to say goodbye to.
 * But it was given a connection, and AW_FIBER_DROP gives that back. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

AW_FIBER(int, session, int conn;) {
    printf("session %d: started\n", self->conn);
    int error = aw_await(aw_sleep_for(AW_SEC(3600)));
    printf("session %d: %s, and it is %s who is cancelled\n", self->conn, strerror(-error),
           aw_cancelled() ? "me" : "not me");
    AW_SHIELD {
        printf("session %d: saying goodbye ...\n", self->conn);
        aw_await(aw_sleep_for(AW_MSEC(50)));
        printf("session %d: ... said\n", self->conn);
    }
    error = aw_await(aw_sleep_for(AW_MSEC(50)));
    printf("session %d: outside the shield again: %s\n", self->conn, strerror(-error));
    printf("session %d: closed\n", self->conn);
    return error;
}
AW_FIBER_DROP(session) {
    printf("session %d: closed, never entered\n", self->conn);
}

AW_FIBER(int, start) {
    int error = aw_await_for(AW_MSEC(10), AW_CALL(session, .conn = 1));
    printf("the timeout: %s\n\n", strerror(-error));

    struct session *task = aw_spawn(AW_CALL(session, .conn = 2));
    aw_fiber_yield(); /* let it begin */
    aw_task_abort(task);
    error = aw_await(aw_task_join(task));
    printf("the join: %s, and it is %s who is cancelled\n\n", strerror(-error),
           aw_cancelled() ? "me" : "not me");
    aw_task_drop(task);

    task = aw_spawn(AW_CALL(session, .conn = 3));
    aw_task_abort(task);
    error = aw_await(aw_task_join(task));
    printf("the join: %s\n", strerror(-error));
    aw_task_drop(task);
    return 0;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
