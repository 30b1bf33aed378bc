/* SPDX-License-Identifier: MIT
 *
 * All messages leave through this file. The callback is set before threads start, so it is read
 * without synchronisation. */
#include <awake/log.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/misuse.h"

static aw_log_fn *log_fn;
static void *log_data;

void aw_set_log(aw_log_fn *fn, void *data) {
    log_fn = fn;
    log_data = data;
}

/* One write, so that lines of several threads do not interleave. */
static void log_to_stderr(aw_log_level level, const char *message) {
    static const char *const names[] = {"misuse", "problem", "info"};
    char line[4352];
    int n = snprintf(line, sizeof line, "awake: %s: %s\n", names[level], message);
    if (n < 0) return;
    if ((size_t)n >= sizeof line) {
        n = sizeof line - 1;
        line[n - 1] = '\n';
    }
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written; /* a failure cannot be reported */
}

static void log_va(aw_log_level level, const char *format, va_list args) {
    char message[4096];
    vsnprintf(message, sizeof message, format, args);
    if (log_fn)
        log_fn(log_data, level, message);
    else
        log_to_stderr(level, message);
    if (level == AW_LOG_MISUSE) abort();
}

void aw_log(aw_log_level level, const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_va(level, format, args);
    va_end(args);
}

void aw__misuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_va(AW_LOG_MISUSE, format, args);
    va_end(args);
    abort();
}
