/* SPDX-License-Identifier: MIT
 *
 * A task that fails, seen at its join. Other tasks continue.
 *
 * AW_FAIL ends the whole task from any depth: everything in it is cancelled, from the inside out,
 * and the join of the task reports the code. No caller on the way has to pass on the error. For an
 * error that the caller should handle, use an ordinary return value.
 *
 * Notice that `handle` contains no error handling: it is cancelled where it waits, and its
 * AW_FINALLY runs. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

AW_ASYNC(int, read_page, int n; aw_sleep disk;) {
    AW_BEGIN;
    AW_AWAIT(self->disk, aw_sleep_for(AW_MSEC(10)));
    if (self->n == 2) AW_FAIL(-EIO);
    AW_RETURN(self->n * 100);
    AW_END;
}

AW_ASYNC(int, handle, int n; struct read_page read;) {
    AW_BEGIN;
    AW_AWAIT(self->read, AW_CALL(read_page, .n = self->n));
    AW_RETURN(self->read.out + 1);
    AW_FINALLY;
    printf("request %d: cleaned up\n", self->n);
    AW_END;
}

struct start {
    AW_FRAME(int);
    struct handle *tasks[3];
    int i;
    aw_task_join_future join;
};
AW_ASYNC_STATIC(start) {
    AW_BEGIN;
    for (int i = 0; i < 3; i++)
        self->tasks[i] = aw_spawn(AW_CALL(handle, .n = i + 1));
    for (self->i = 0; self->i < 3; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        if (self->join.out == 0)
            printf("request %d: %d\n", self->i + 1, self->tasks[self->i]->out);
        else
            printf("request %d: %s\n", self->i + 1, strerror(-self->join.out));
        aw_task_drop(self->tasks[self->i]);
    }
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
