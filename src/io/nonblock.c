/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "io/nonblock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/list.h"
#include "os/fork.h"
#include "os/lock.h"

enum { NONBLOCK_LISTS = 64 };

static uint32_t nonblock_lock;
static aw__nonblock *nonblock_lists[NONBLOCK_LISTS]; /* by inode */

static aw__nonblock **list_of(const aw__nonblock *n) {
    return &nonblock_lists[n->inode % NONBLOCK_LISTS];
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void nonblock_before_fork(void) {
    aw__lock(&nonblock_lock);
}
static void nonblock_in_parent(void) {
    aw__unlock(&nonblock_lock);
}
static void nonblock_in_child(void) {
    memset(nonblock_lists, 0, sizeof nonblock_lists);
    aw__unlock(&nonblock_lock);
}

static int watch_error;
static void watch_forks(void) {
    watch_error = aw__fork_watch();
    if (!watch_error)
        watch_error = -pthread_atfork(nonblock_before_fork, nonblock_in_parent, nonblock_in_child);
}

/* ---- Beginning and ending -------------------------------------------------------------------- */

/* 1: the flag was changed; 0: it was so before; or a negative errno. */
static int set_flag(int fd, bool on) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) return -errno;
    if (!!(flags & O_NONBLOCK) == on) return 0;
    return fcntl(fd, F_SETFL, flags ^ O_NONBLOCK) ? -errno : 1;
}

int aw__nonblock_begin(aw__nonblock *n, int fd) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct stat info;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &info)) return -errno;
    if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode) || S_ISBLK(info.st_mode)) return -EPERM;
    pthread_once(&once, watch_forks);
    if (watch_error) return watch_error;
    *n = (aw__nonblock){.device = info.st_dev,
                        .inode = info.st_ino,
                        .generation = aw__fork_generation,
                        .mode = flags & O_ACCMODE,
                        .fd = fd};
    /* Under the lock: another connection of the file may be about to clear it. */
    aw__lock(&nonblock_lock);
    int set = set_flag(fd, true);
    if (set >= 0) {
        n->must_clear = set;
        aw__list_insert_head(list_of(n), n);
    }
    aw__unlock(&nonblock_lock);
    return set < 0 ? set : 0;
}

typedef enum sameness { DIFFERENT, SAME, UNKNOWN } sameness;

static sameness compare_open_files(const aw__nonblock *a, const aw__nonblock *b) {
    if (a->inode != b->inode || a->device != b->device || a->mode != b->mode) return DIFFERENT;
    pid_t self = getpid();
    long order = syscall(SYS_kcmp, self, self, KCMP_FILE, (long)a->fd, (long)b->fd);
    return order < 0 ? UNKNOWN : order == 0 ? SAME : DIFFERENT;
}

/* Rules 2 and 3. */
static void pass_on_or_clear(const aw__nonblock *n) {
    for (aw__nonblock *o = *list_of(n); o; o = o->next) {
        sameness same = compare_open_files(n, o);
        if (same == SAME) o->must_clear = true;
        if (same != DIFFERENT) return;
    }
    set_flag(n->fd, false);
}

void aw__nonblock_end(aw__nonblock *n) {
    if (n->generation != aw__fork_generation) return;
    aw__lock(&nonblock_lock);
    aw__list_remove(list_of(n), n);
    if (n->must_clear) pass_on_or_clear(n);
    aw__unlock(&nonblock_lock);
}
