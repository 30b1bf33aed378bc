/* SPDX-License-Identifier: MIT
 *
 * The current-thread runtime. Most of it belongs to the owner: the thread that is in block_on (or in
 * aw_runtime_free). What other threads touch is at the end, and says how. */
#ifndef AW_RUNTIME_RUNTIME_H
#define AW_RUNTIME_RUNTIME_H

#include <awake/runtime.h>

#include "core/limit.h"
#include "core/misuse.h"
#include "driver/place.h"
#include "os/fork.h"
#include "runtime/room.h"
#include "runtime/task.h"
#include "runtime/threads.h"
#include "runtime/wheel.h"

typedef struct aw__queue {
    aw__task *head, *tail;
} aw__queue;

struct aw_runtime {
    struct aw__blocking *blocking; /* atomic: for blocking calls; made with the first */
    uint32_t blocking_threads;
    uint32_t max_blocking;
    uint64_t blocking_idle;
    uint32_t generation;   /* of the process that made it: see os/fork.h */
    bool forgotten;        /* in the child of a fork: freed, but for what has handles and wakers */
    struct aw__pool *pool; /* its workers; NULL: it runs on the thread that is in block_on */
    /* Running tasks. */
    aw__queue ready;   /* woken, in order */
    aw__queue yielded; /* run after timers and the driver have been looked at */
    aw__task *current; /* being polled now */
    aw__meter meter;   /* of that poll */
    aw_future *main;   /* of block_on */
    uint32_t budget;
    /* All tasks. */
    size_t live;          /* that have not ended */
    uint64_t next_id;     /* even: of tasks spawned by the owner */
    size_t allocated;     /* headers not given back yet; after the end guarded by `lock` */
    int64_t outside;      /* waits that something outside this runtime may end */
    int64_t main_outside; /* of those, the main future's */
    uint32_t unparks_due; /* see inbox.h */
    /* Cancels that take long. */
    uint64_t watch_at; /* when to look at them; AW_FOREVER: nothing to watch; atomic with workers */
    uint64_t looks;    /* how many there were */
    uint64_t cancel_report, cleanup_deadline;
    /* The world. */
    aw_seam seam;
    const aw_allocator *allocator;
    aw_log_fn *log;
    void *log_data;
    const char *name;
    uint64_t number; /* that no other runtime has had */
    aw_hooks hooks;  /* those for tasks; those for threads are in */
    aw__threads threads;
    bool in_storage;
    bool keep_tasks; /* at the end of block_on */
    struct aw__embedded {
        bool used; /* otherwise it is in nobody else's loop */
        bool asleep;
        int epoll, timer;
    } embedded; /* see embed.c */
    aw__rooms rooms;

    /* Shared with other threads. */
    aw__limit tasks;       /* that have not ended */
    aw__limit stacks;      /* in use */
    uint32_t owned;        /* atomic: a thread is the owner */
    uint32_t closing;      /* atomic: no new tasks, for ever or AW__FOR_NOW */
    uint32_t holds;        /* atomic: aw_runtime_hold */
    uint32_t besides;      /* atomic: threads in block_on that are not the owner */
    uint32_t paused;       /* atomic: the clock stands at `paused_now` */
    uint64_t paused_now;   /* atomic */
    uint64_t clock_lead;   /* atomic: how far (modulo 2^64) our clock is ahead of the seam's */
    uint64_t outside_ids;  /* atomic: odd: of tasks spawned by others */
    aw__task *inbox;       /* atomic: see inbox.h */
    uint32_t unparks_done; /* atomic */
    aw__place place;       /* the owner sleeps there, unless the seam has a way of its own */
    const aw__driver_type *driver_type; /* atomic: as wished, until it is known what works here */
    bool driver_known;                  /* atomic */
    int driver_fallback;                /* why it is not as wished, or 0 */
    uint32_t lock;                      /* guards what follows, and tasks after the end */
    struct aw_task_join_future *joins;  /* joins that wait on other threads; atomic to peek at */
    struct aw__waiting *waiting;        /* threads that would take over when the owner leaves */
    bool ended;                         /* freed when no task is allocated any more */
    aw_runtime *next_left;              /* see shutdown.c */
    aw__wheel *wheels;                  /* `wheel`, or that of the first worker */
    aw__wheel wheel;                    /* has its own lock */
    aw__room main_room;                 /* with one task, which follows it */
    aw__task main_task;
};

_Static_assert(offsetof(aw_runtime, main_task) ==
                   offsetof(aw_runtime, main_room) + sizeof(aw__room),
               "the main task is in its room");
_Static_assert(sizeof(aw_runtime) <= AW_RUNTIME_SIZE, "AW_RUNTIME_SIZE in awake/runtime.h");

/* What this thread is doing. */
struct aw__thread {
    aw_runtime *running; /* is the owner of */
    aw_runtime *beside;  /* is in block_on of, while others run it */
    aw__task *main;      /* of that block_on, when the others are workers */
    aw_runtime *entered;
    aw__wheel *wheel;          /* whose owner it is */
    struct aw__worker *worker; /* which it is */
};
extern _Thread_local struct aw__thread aw__thread __attribute__((tls_model("initial-exec")));

/* Whether this is the child of a fork, and it was made before. */
static inline bool aw__rt_forked(const aw_runtime *rt) {
    return AW__UNLIKELY(rt->generation != aw__fork_generation);
}

static inline bool aw__is_owner(const aw_runtime *rt) {
    return aw__thread.running == rt;
}

/* The wheel for timers that are set on this thread. */
static inline aw__wheel *aw__rt_wheel(aw_runtime *rt) {
    aw__wheel *w = aw__thread.wheel;
    return w && w->rt == rt ? w : rt->wheels;
}

static inline uint64_t aw__rt_now(const aw_runtime *rt) {
    if (aw__load_acquire(&rt->paused)) return aw__load_acquire(&rt->paused_now);
    return rt->seam.now(rt->seam.data) + aw__load_relaxed(&rt->clock_lead);
}

static inline void aw__queue_push(aw__queue *q, aw__task *t) {
    t->next = NULL;
    if (q->tail)
        q->tail->next = t;
    else
        q->head = t;
    q->tail = t;
}

/* Sleep until a deadline of the seam's clock, and end that from any thread. */
bool aw__rt_has_system_clock(const aw_runtime *rt); /* otherwise a seam's */
void aw__rt_park(aw_runtime *rt, uint64_t deadline);
void aw__rt_unpark(aw_runtime *rt);

/* scheduler.c: the loop. By the owner. */
bool aw__rt_acquire(aw_runtime *rt); /* become the owner; false: somebody is */
void aw__rt_disown(aw_runtime *rt);
void aw__rt_release(aw_runtime *rt); /* the same, but the tasks stay */
bool aw__inside(void);               /* this thread polls for somebody: it must not block */
int aw__refuse(aw_future *f, const char *what); /* -EPERM, with a message; the future is gone */
typedef enum aw__until { AW__MAIN_ENDED, AW__ALL_ENDED, AW__EITHER_ENDED } aw__until;
int aw__rt_run(aw_runtime *rt, aw__until until); /* 0, or -EDEADLK */
bool aw__rt_turn(aw_runtime *rt);     /* what can be done without sleeping; true: there is more */
uint64_t aw__rt_next(aw_runtime *rt); /* until when it has nothing to do, by the seam's clock */
enum { AW__FOR_EVER = 1, AW__FOR_NOW = 2 };
/* Cancel them all, and wait for so long at most: 0, AW_FOREVER, or of the runtime's clock. */
void aw__rt_end_tasks(aw_runtime *rt, uint32_t closing, uint64_t limit);
void aw__rt_drain(aw_runtime *rt); /* serve the inbox */
aw__task *aw__current_task(void);  /* of this thread, or NULL */

/* embed.c: by the owner, when it begins and before it ceases to be that. */
void aw__embedded_awake(aw_runtime *rt);
void aw__embedded_asleep(aw_runtime *rt);
void aw__embedded_end(aw_runtime *rt);

/* shutdown.c: when no task is left. */
void aw__rt_end_blocking(aw_runtime *rt);
void aw__rt_end_drivers(aw_runtime *rt);
void aw__rt_free_memory(aw_runtime *rt);
/* Its tasks will never end: it stays, where a leak checker finds it. */
void aw__rt_leave_alive(aw_runtime *rt);

/* forked.c: in place of aw_runtime_free, in the child of a fork. */
void aw__rt_forget(aw_runtime *rt);

/* Any thread: one less of what keeps it from being a deadlock. */
void aw__rt_unhold(aw_runtime *rt, uint32_t *count);

/* task.c: tell the hooks that a task has been spawned (AW__RUNNING), or how it has ended. */
void aw__hook_task(const aw_runtime *rt, const aw__task *t, int status);
static inline void aw__task_spawned(const aw_runtime *rt, const aw__task *t) {
    if (AW__UNLIKELY(rt->hooks.task_spawn != NULL)) aw__hook_task(rt, t, AW__RUNNING);
}
static inline void aw__task_ended(const aw_runtime *rt, const aw__task *t, int status) {
    if (AW__UNLIKELY(rt->hooks.task_end != NULL)) aw__hook_task(rt, t, status);
}

/* join.c: wake the joins of other threads whose task has ended. */
void aw__rt_wake_joins(aw_runtime *rt);

/* local.c: the values are released when the task ends, the rest when it is gone. */
void aw__locals_release(aw__task *t);
void aw__locals_free(aw__task *t);
const aw_place *aw__place_of(const aw__task *t);

/* opened.c: a task has ended, or the future of block_on, and has counted something as open. */
void aw__check_left_by_task(aw__task *t);
void aw__check_left_by_main(const aw_future *f, uint32_t opened);

/* report.c: see there. */
void aw__report_if_lost(aw_runtime *rt, aw__task *t);
void aw__report_lost(const aw_runtime *rt, const aw__task *t);
bool aw__is_deadlock(aw_runtime *rt);
void aw__report_deadlock(const aw_runtime *rt);
void aw__report_left(const aw_runtime *rt, const char *words, ...) AW_PRINTF(2, 3);
void aw__report_sleeps(const aw_runtime *rt, size_t count);
/* Keep the count of cancels in a task; true: it has begun to count. */
bool aw__count_cancels(aw__task *t, int32_t change, bool ended);
void aw__watch_begin(aw_runtime *rt);
void aw__watch_again(aw_runtime *rt, uint64_t now);
/* What is to be said when all have been looked at: nothing is locked while somebody listens. */
typedef struct aw__reports {
    size_t length, left_out;
    char text[16384]; /* one after the other, each with its zero */
} aw__reports;
void aw__reports_add(aw__reports *r, const char *message);
void aw__reports_log(const aw_runtime *rt, const aw__reports *r);
bool aw__watch_task(aw_runtime *rt, aw__task *t, aw__reports *reports); /* true: look again */
void aw__watch(aw_runtime *rt, uint64_t now);
void aw__name_task(char *buf, size_t size, const aw__task *t);

#endif
