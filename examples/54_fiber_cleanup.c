/* SPDX-License-Identifier: MIT
 *
 * A cancelled fiber cleans up, in plain C.
 *
 * A cancel makes no jump: the await in which the fiber waits returns -ECANCELED, like any error,
 * and so does each later await. The fiber takes its usual error path, down to its cleanup. Only
 * cleanup that has to wait needs something special: awaits in an AW_SHIELD are not cancelled. The
 * timeout or the join that requested the cancel ends when the fiber has ended.
 *
 * An await also returns -ECANCELED if the awaited task was cancelled. aw_cancelled() tells whether
 * this fiber is being cancelled.
 *
 * Notice the last session: it was never entered, so it has no stack. But it owns a connection, and
 * AW_FIBER_DROP closes it. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

AW_FIBER(int, session, int conn;) {
    printf("session %d: started\n", self->conn);
    int error = aw_await(aw_sleep_for(AW_SEC(3600)));
    printf("session %d: %s, aw_cancelled() is %s\n", self->conn, strerror(-error),
           aw_cancelled() ? "true" : "false");
    AW_SHIELD {
        printf("session %d: saying goodbye\n", self->conn);
        aw_await(aw_sleep_for(AW_MSEC(50)));
        printf("session %d: said goodbye\n", self->conn);
    }
    error = aw_await(aw_sleep_for(AW_MSEC(50)));
    printf("session %d: after the shield: %s\n", self->conn, strerror(-error));
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
    aw_fiber_yield(); /* let it start */
    aw_task_abort(task);
    error = aw_await(aw_task_join(task));
    printf("the join: %s, aw_cancelled() is %s\n\n", strerror(-error),
           aw_cancelled() ? "true" : "false");
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
