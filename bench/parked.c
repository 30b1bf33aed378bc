/* SPDX-License-Identifier: MIT
 *
 * An idle runtime that has worked before, for five seconds: context switches and CPU time of its
 * threads. All threads of the process count except the measuring one. */
#define _GNU_SOURCE
#include "bench.h"

#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { TASKS = 1000 };

static aw_notify end = AW_NOTIFY_INIT;
static int done;

/* Context switches, voluntary or not, and nanoseconds of CPU time, of all threads but this one. */
typedef struct usage {
    long threads, switches, ns;
} usage;

static void add_switches(usage *u, const char *thread) {
    char path[300], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *f = fopen(path, "r");
    bench_check(f != NULL, path);
    while (fgets(line, sizeof line, f)) {
        const char *colon = strstr(line, "ctxt_switches:");
        if (colon) u->switches += atol(colon + strlen("ctxt_switches:"));
    }
    fclose(f);
}

static void add_time(usage *u, const char *thread) {
    char path[300];
    long ns = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", thread);
    FILE *f = fopen(path, "r");
    bench_check(f && fscanf(f, "%ld", &ns) == 1, path);
    u->ns += ns;
    fclose(f);
}

static usage look(void) {
    usage u = {0, 0, 0};
    DIR *threads = opendir("/proc/self/task");
    bench_check(threads != NULL, "/proc/self/task");
    for (struct dirent *thread; (thread = readdir(threads));) {
        if (thread->d_name[0] == '.' || atol(thread->d_name) == getpid()) continue;
        u.threads++;
        add_switches(&u, thread->d_name);
        add_time(&u, thread->d_name);
    }
    closedir(threads);
    return u;
}

/* ---- Runtime --------------------------------------------------------------------------------- */

static long nothing(void *arg) {
    (void)arg;
    return 0;
}

AW_ASYNC(int, worker, aw_blocking_future job; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->job, aw_blocking(nothing, NULL));
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    bench_add(done, 1);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, work_and_wait, aw_notified wait;) {
    AW_BEGIN;
    for (int i = 0; i < TASKS; i++)
        aw_task_detach(aw_spawn(AW_CALL(worker)));
    AW_AWAIT(self->wait, aw_notify_wait(&end));
    AW_RETURN(0);
    AW_END;
}

static void *runner(void *arg) {
    (void)arg;
    bench_check(bench_run(AW_CALL(work_and_wait)) == 0, "the runtime ends");
    return NULL;
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    pthread_t thread;
    bench_check(pthread_create(&thread, NULL, runner, NULL) == 0, "a thread");
    usage before, after;
    /* The threads sleep when there was no context switch for a while. */
    struct timespec a_while = {0, 50000000}, five = {5, 0};
    do {
        before = look();
        nanosleep(&a_while, NULL);
        after = look();
    } while (bench_load(done) < TASKS || before.switches != after.switches);

    before = look();
    nanosleep(&five, NULL);
    after = look();
    bench_check(before.threads == after.threads, "the threads are the same");
    aw_notify_one(&end);
    pthread_join(thread, NULL);
    bench_report("threads", (double)after.threads, "threads");
    bench_report("switches", (double)(after.switches - before.switches), "switches");
    bench_report("cpu", (double)(after.ns - before.ns) / 1e3, "us");
}
