/* SPDX-License-Identifier: MIT
 *
 * No allocation at all: the runtime and its tasks live in storage that the program provides.
 *
 * An await never allocates: the awaited future is a member of the frame. Only the runtime and
 * spawned tasks need memory of their own, and both accept storage from the caller. The size of a
 * task is known at compile time. As a proof, the allocator of this program always fails.
 *
 * Notice the ordinary spawn: it does not crash, and its join reports an error. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

static void *refuse(void *data, size_t size) {
    (void)data;
    (void)size;
    printf("allocation refused\n");
    return NULL;
}

static void ignore(void *data, void *memory, size_t size) {
    (void)data, (void)memory, (void)size;
}

AW_ASYNC(int, job, int n; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(10)));
    AW_RETURN(self->n * self->n);
    AW_END;
}

static aw_runtime_storage runtime_storage;
static AW_TASK_STORAGE(struct job) task_storage[3];

struct start {
    AW_FRAME(int);
    struct job *jobs[4];
    int i;
    aw_task_join_future join;
};
AW_ASYNC_STATIC(start) {
    AW_BEGIN;
    for (int i = 0; i < 3; i++)
        self->jobs[i] = aw_spawn_in(&task_storage[i], AW_CALL(job, .n = i + 1));
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
    static const aw_allocator none = {refuse, ignore, NULL};
    aw_set_allocator(&none);

    aw_runtime *rt;
    int error = aw_runtime_new_in(&rt, &runtime_storage, sizeof runtime_storage, NULL);
    if (error) return error;
    error = aw_block_on(rt, AW_CALL(start));
    aw_runtime_free(rt);
    return error;
}
