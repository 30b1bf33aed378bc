/* SPDX-License-Identifier: MIT
 *
 * Sockets inherited through LISTEN_FDS (socket activation), and sockets to keep across an exec. */
#define _GNU_SOURCE
#include <awake/socket_activation.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "os/environment.h"

enum { LISTEN_FDS_START = 3 };

/* Takes the first name off a list separated by colons. */
static void take_name(char name[256], const char **list) {
    size_t length = *list ? strcspn(*list, ":") : 0;
    if (!*list || length == 0) {
        memcpy(name, "unknown", sizeof "unknown");
    } else {
        size_t size = length < 255 ? length : 255;
        memcpy(name, *list, size);
        name[size] = 0;
    }
    if (*list) *list = (*list)[length] ? *list + length + 1 : NULL;
}

int aw_inherited_fds(aw_inherited *found, int max) {
    const char *fds = aw__environment("LISTEN_FDS"), *pid = aw__environment("LISTEN_PID");
    const char *names = aw__environment("LISTEN_FDNAMES");
    if (max < 0 || (max && !found)) return -EINVAL;
    if (!fds || !pid || !*fds || !*pid) return 0;
    unsigned long target = aw__environment_number("LISTEN_PID");
    unsigned long count = aw__environment_number("LISTEN_FDS");
    if (target == 0 || (count == 0 && strcmp(fds, "0") != 0) || count > INT_MAX - LISTEN_FDS_START)
        return -EINVAL;
    if (target != (unsigned long)getpid()) return 0;
    for (int i = 0; i < (int)count; i++) {
        int flags = fcntl(LISTEN_FDS_START + i, F_GETFD);
        if (flags < 0) return -EINVAL;
        if (!(flags & FD_CLOEXEC) && fcntl(LISTEN_FDS_START + i, F_SETFD, flags | FD_CLOEXEC))
            return -errno;
    }
    for (int i = 0; i < (int)count && i < max; i++) {
        found[i].fd = LISTEN_FDS_START + i;
        take_name(found[i].name, &names);
    }
    return (int)count;
}

int aw_listener_for_exec(const aw_listener *l) {
    int fd = aw_listener_fd(l);
    if (fd < 0) return fd;
    fd = fcntl(fd, F_DUPFD, LISTEN_FDS_START); /* not close-on-exec */
    return fd < 0 ? -errno : fd;
}
