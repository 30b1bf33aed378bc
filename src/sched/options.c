/* SPDX-License-Identifier: MIT */
#include "sched/options.h"

#include <errno.h>
#include <string.h>

#include "base/sized_copy.h"
#include "context/context.h"
#include "os/environment.h"
#include "os/processors.h"
#include "sched/multi/pool.h"
#include "task/runtime_state.h"

enum { BLOCKING_THREADS = 512, BLOCKING_THREADS_MAX = 65535 /* see os/idle.h */ };

int aw__options_copy(aw_runtime_options *o, const aw_runtime_options *options) {
    *o = (aw_runtime_options)AW_RUNTIME_OPTIONS;
    if (options && !aw__copy_sized(o, sizeof *o, options)) return -EINVAL;
    if (o->seam && o->seam->self_size != sizeof(aw_seam)) return -EINVAL;
    if (o->flavour > AW_THREAD_PER_CORE || o->workers > AW__WORKERS_MAX) return -EINVAL;
    if (o->flavour > AW_CURRENT_THREAD && o->seam) return -ENOTSUP;
    return 0;
}

static aw_flavour flavour_from_environment(const aw_runtime *rt) {
    static const char *const words[] = {"current", "multi", "per-core"};
    static uint32_t reported; /* atomic */
    const char *word = aw__environment("AWAKE_FLAVOUR");
    if (!word || !*word) return AW_CURRENT_THREAD;
    for (int i = 0; i < 3; i++)
        if (strcmp(word, words[i]) == 0) return (aw_flavour)(AW_CURRENT_THREAD + i);
    if (!aw__exchange(&reported, 1u))
        aw__rt_log(
            rt, AW_LOG_PROBLEM,
            "AWAKE_FLAVOUR is '%.40s', which is none of current, multi and per-core: ignored",
            word);
    return AW_CURRENT_THREAD;
}

/* The program's value, else the environment's, else 0. At most `max`. */
static uint32_t option_number(const aw_runtime_options *o, uint32_t value, const char *name,
                              uint32_t max) {
    unsigned long n = value;
    if (n == 0 && !o->ignore_environment) n = aw__environment_number(name);
    return n < max ? (uint32_t)n : max;
}

/* The driver named by the program, else by the environment, else the default. */
const aw__driver_type *aw__options_driver(const aw_runtime_options *o, const aw_runtime *rt) {
    static uint32_t reported; /* atomic */
    const char *name = o->driver;
    if (!name && !o->ignore_environment) name = aw__environment("AWAKE_DRIVER");
    const aw__driver_type *type = aw__driver_by_name(name);
    if (type) return type;
    if (!o->driver && !aw__exchange(&reported, 1u))
        aw__rt_log(rt, AW_LOG_PROBLEM,
                   "AWAKE_DRIVER is '%.40s', which is none of uring, epoll and poll: ignored",
                   name);
    return o->driver ? NULL : aw__driver_by_name(NULL);
}

void aw__options_settle(aw_runtime_options *o, const aw_runtime *rt) {
    if (o->flavour == AW_FLAVOUR_DEFAULT)
        o->flavour = o->ignore_environment || o->seam ? AW_CURRENT_THREAD
                                                      : flavour_from_environment(rt);
    o->workers = option_number(o, o->workers, "AWAKE_WORKERS", AW__WORKERS_MAX);
    if (o->flavour != AW_CURRENT_THREAD && o->workers == 0) {
        uint32_t n = aw__processors();
        o->workers = n < AW__WORKERS_MAX ? n : AW__WORKERS_MAX;
    }
    o->blocking_threads = option_number(o, o->blocking_threads, "AWAKE_BLOCKING_THREADS",
                                        BLOCKING_THREADS_MAX);
    if (o->blocking_threads == 0) o->blocking_threads = BLOCKING_THREADS;
}
