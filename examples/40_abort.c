/* SPDX-License-Identifier: MIT
 *
 * An aborted task cleans up, and its cleanup may wait.
 *
 * aw_task_abort requests a cancel. The runtime cancels what the task waits for, and control goes to
 * AW_FINALLY. That part runs to its end: its awaits are polled, never cancelled. The join ends when
 * the task has ended. It reports -ECANCELED, or 0 if the task finished before the cancel.
 *
 * Notice the second session: its body never ran, but it owns a connection and closes it. There is
 * no peer to say goodbye to, so AW_FINALLY checks AW_STARTED before it awaits. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

AW_ASYNC(void, session, int conn; aw_sleep nap;) {
    AW_BEGIN;
    printf("session %d: started\n", self->conn);
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(3600)));
    AW_FINALLY;
    if (AW_STARTED) {
        printf("session %d: saying goodbye\n", self->conn);
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(50)));
    }
    printf("session %d: closed\n", self->conn);
    AW_END;
}

AW_ASYNC(void, stop, struct session *session; aw_task_join_future join;) {
    AW_BEGIN;
    aw_task_abort(self->session);
    printf("abort requested\n");
    AW_AWAIT(self->join, aw_task_join(self->session));
    printf("joined: %s\n", strerror(-self->join.out));
    aw_task_drop(self->session);
    AW_END;
}

struct start {
    AW_FRAME(int);
    struct session *session;
    aw_sleep nap;
    struct stop stop;
};
AW_ASYNC_STATIC(start) {
    AW_BEGIN;
    self->session = aw_spawn(AW_CALL(session, .conn = 1));
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(10)));
    AW_AWAIT(self->stop, AW_CALL(stop, .session = self->session));

    self->session = aw_spawn(AW_CALL(session, .conn = 2));
    AW_AWAIT(self->stop, AW_CALL(stop, .session = self->session));
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
