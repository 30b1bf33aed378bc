/* SPDX-License-Identifier: MIT
 *
 * Not one allocation: the runtime and its tasks live in storage that the program gives.
 *
 * An await allocates nothing anyway: what is awaited is a member of the frame. Only the runtime and
 * spawned tasks need memory of their own, and both take what they are given; the size of a task is known
 * when the program is compiled. To prove it, the allocator of this program always refuses.
 *
 * Notice what an ordinary spawn does then: no crash, but an error that its join reports. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

static void *refuse(void *data, size_t size) {
    (void)data;
    (void)size;
    printf("no memory is given\n");
    return NULL;
}

static void release(void *data, void *memory, size_t size) {
    (void)data, (void)memory, (void)size;
}

AW_ASYNC(int, job, int n; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(10)));
    AW_RETURN(self->n * self->n);
    AW_END;
}

static aw_runtime_storage room_for_runtime;
static AW_TASK_STORAGE(struct job) room_for_tasks[3];

AW_ASYNC(int, start, struct job *jobs[4]; int i; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < 3; i++)
        self->jobs[i] = aw_spawn_in(&room_for_tasks[i], AW_CALL(job, .n = i + 1));
    self->jobs[3] = aw_spawn(AW_CALL(job, .n = 4));

    for (self->i = 0; self->i < 4; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->jobs[self->i]));
        if (self->join.out == 0)
            printf("job %d: %d\n", self->i + 1, self->jobs[self->i]->out);
        else
            printf("job %d: %s\n", self->i + 1, strerror(-self->join.out));
        aw_task_drop(self->jobs[self->i]);
    }
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    static const aw_allocator none = {refuse, release, NULL};
    aw_set_allocator(&none);

    aw_runtime *rt;
    int error = aw_runtime_new_in(&rt, &room_for_runtime, sizeof room_for_runtime, NULL);
    if (error) return error;
    error = aw_block_on(rt, AW_CALL(start));
    aw_runtime_free(rt);
    return error;
}
