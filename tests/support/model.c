/* SPDX-License-Identifier: MIT
 *
 * The engine of model.h, which includes this file. From the inside out: the search over choices;
 * scheduling; memory (in model_memory.c); waiting; executions. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(MODEL_SEES_PLAIN)
#define MODEL__UNSEEN __attribute__((no_sanitize_thread))
#else
#define MODEL__UNSEEN
#endif
#include "fiber/annotate.h"

enum {
    MODEL_LOCATIONS = 56,
    MODEL_STORES = 2048,
    MODEL_CHOICES = 4096,
    MODEL_EVENTS = 2000, /* limit for one execution */
    MODEL_CELLS = 4096,
    MODEL_BLOCKS = 64,
    MODEL_SPINS = 20, /* in a row, without a step of another thread */
    MODEL_STACK = 256 * 1024
};

/* What a thread knows, or a store passes on: the newest known store of each location, and the
 * known progress of each thread. */
struct model__view {
    uint16_t seen[MODEL_LOCATIONS];
    uint16_t clock[MODEL_THREADS];
};

struct model__store {
    uint64_t value;
    uint16_t index; /* in the order of the location's stores */
    struct model__store *older;
    struct model__view view; /* acquired by readers */
};

struct model__location {
    unsigned size;
    uint16_t floor;   /* index of a plain write: nothing older can be read */
    bool overwritten; /* by a plain write */
    struct model__store *newest;
};

enum model__access {
    MODEL__PLAIN_READ,
    MODEL__PLAIN_WRITE,
    MODEL__ATOMIC_READ,
    MODEL__ATOMIC_WRITE,
    MODEL__ACCESSES
};

/* Eight bytes of memory: the last accesses of each kind, by each thread, to each byte. */
struct model__cell {
    uintptr_t granule;
    uint64_t execution; /* the cell is unused if this is not the current one */
    uint16_t when[MODEL__ACCESSES][MODEL_THREADS][8];
    uint16_t last[MODEL_THREADS];
    /* 1 + the index of the location that begins here; 0: none */
    uint8_t location[8];
    /* A site, or a code address. */
    const void *where[MODEL__ACCESSES][MODEL_THREADS];
    const void *freed;
};

enum model__state { MODEL__READY, MODEL__WAITING, MODEL__ENDED };

struct model__thread {
    aw__side side;
    char *stack;
    void (*body)(void);
    enum model__state state;
    /* Must not run before another thread has made a step. */
    bool yielded;
    /* Chosen to make its next step, without another choice before it. */
    bool picked;
    int spins;                   /* since another thread has made a step */
    int ran_at, yielded_at;      /* when it was last picked; when it last yielded */
    unsigned behind;             /* bitmap: threads that must run before it */
    const struct model_site *at; /* where it waits */
    bool (*condition)(void *arg);
    void *arg;
    bool times_out;
    struct model__view now;
    struct model__view loaded;   /* views of relaxed loads, for an acquire fence */
    struct model__view released; /* of the last release fence, for relaxed stores */
};

static int model__self = -1; /* the running thread; -1: setup, check or the engine */

static struct {
    int preemptions, stale; /* bounds */
    /* The search: the choices of this execution, and how many of them are recorded for replay. */
    struct {
        uint16_t chosen, of, at; /* at: the number of events before it */
    } choices[MODEL_CHOICES];
    int made, recorded;
    /* The execution. */
    bool switching; /* stacks and contexts are accessed: do not check */
    int preempted, staled, picks;
    uint64_t execution;
    aw__side main;
    struct model__thread threads[MODEL_THREADS + 1]; /* the last one runs setup and check */
    struct model__location locations[MODEL_LOCATIONS];
    int location_count;
    struct model__store stores[MODEL_STORES];
    int store_count;
    struct model__view seq;
    struct model__cell cells[MODEL_CELLS], *used[MODEL_CELLS];
    int used_count;
    struct model__block {
        char *p;
        size_t size;
        const struct model_site *freed; /* where */
    } blocks[MODEL_BLOCKS];
    int block_count;
    struct {
        void *p;
        size_t size;
        char saved[MODEL_THREADS + 1][128];
    } locals[4];
    int local_count;
    struct model__event {
        const struct model_site *site;
        int thread;
        uint64_t before, after, newest;
        bool failed;
    } events[MODEL_EVENTS];
    int event_count;
    char message[1 << 18];
    size_t length;
    bool has_failed;
} M_;

static struct model_site *model_sites;
const char *const model_order_names[4] = {"acquire", "release", "seq_cst", "failure"};
const struct model_harmless model_all_matter[] = {{0}};

/* ---- Failures -------------------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) MODEL__UNSEEN static void model__say(const char *format,
                                                                           ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(M_.message + M_.length, sizeof M_.message - M_.length, format, args);
    va_end(args);
    M_.length += n > 0 ? (size_t)n : 0;
    if (M_.length >= sizeof M_.message) M_.length = sizeof M_.message - 1;
}

/* The output is the same in each run, wherever the program is loaded. */
MODEL__UNSEEN static void model__say_value(uint64_t value) {
    extern char __executable_start[], _end[];
    for (int i = 0; i < M_.block_count; i++)
        if (value - (uintptr_t)M_.blocks[i].p < M_.blocks[i].size) {
            model__say("block %d+%u", i, (unsigned)(value - (uintptr_t)M_.blocks[i].p));
            return;
        }
    if (value - (uintptr_t)__executable_start < (uintptr_t)(_end - __executable_start))
        model__say("image+0x%" PRIx64, value - (uintptr_t)__executable_start);
    else
        model__say(value < 4096 ? "%" PRIu64 : "0x%" PRIx64, value);
}

/* A site, or the code address of a plain access. */
MODEL__UNSEEN static void model__say_where(const void *where) {
    extern char __executable_start[];
    for (const struct model_site *s = model_sites; s; s = s->next)
        if (s == where) {
            model__say("%s:%d %s", s->file, s->line, s->text);
            return;
        }
    char command[128], line[256] = "";
    uintptr_t offset = (uintptr_t)where - (uintptr_t)__executable_start - 1;
    snprintf(command, sizeof command, "addr2line -s -e /proc/%d/exe 0x%" PRIxPTR " 2>/dev/null",
             (int)getpid(), offset);
    FILE *names = popen(command, "r");
    if (names && fgets(line, sizeof line, names)) line[strcspn(line, " \n")] = 0;
    if (names) pclose(names);
    model__say("%s (image+0x%" PRIxPTR ")", line, offset);
}

MODEL__UNSEEN static void model__say_schedule(void) {
    for (const struct model_site *s = model_sites; s; s = s->next)
        for (int i = 0; i < 4; i++)
            if (s->weak & 1u << i)
                model__say("    without %s: %s:%d %s\n", model_order_names[i], s->file, s->line,
                           s->text);
    for (int i = 0; i < M_.event_count; i++) {
        if (i == 60 && M_.event_count > 160) {
            model__say("  ...\n");
            i = M_.event_count - 60;
        }
        const struct model__event *e = &M_.events[i];
        const struct model_site *s = e->site;
        model__say("%5d  thread %d  %s:%d  %s", i + 1, e->thread, s->file, s->line, s->text);
        if (s->kind <= MODEL_CAS) {
            bool stores = s->kind != MODEL_LOAD && !e->failed;
            model__say(stores ? "  " : e->failed ? "  fails = " : "  = ");
            model__say_value(e->before);
            if (stores) {
                model__say(" -> ");
                model__say_value(e->after);
            } else if (e->before != e->newest) {
                model__say(" (old: it is ");
                model__say_value(e->newest);
                model__say(")");
            }
        }
        model__say("\n");
    }
}

/* Returns to the engine. A thread that has failed, or that is abandoned, is never resumed. */
MODEL__UNSEEN static void model__leave(struct model__thread *t) {
    M_.switching = true;
    aw__side_switch(&t->side, &M_.main, 0);
    M_.switching = false;
}

MODEL__UNSEEN static void model__fail_with(void) {
    model__say("\n");
    model__say_schedule();
    struct model__thread *t = &M_.threads[model__self < 0 ? MODEL_THREADS : model__self];
    M_.has_failed = true;
    model__self = -1;
    model__leave(t);
    abort();
}

void model_fail(const char *format, ...) MODEL__UNSEEN;
void model_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    M_.length += (size_t)vsnprintf(M_.message, 4096, format, args);
    va_end(args);
    model__fail_with();
    abort();
}

/* ---- The search ------------------------------------------------------------------------------ */

/* Replays the recorded choices, and then takes the first branch of each new one. */
MODEL__UNSEEN int model_choose(int n) {
    if (n <= 1) return 0;
    if (M_.made == M_.recorded) {
        if (M_.recorded == MODEL_CHOICES) model_fail("more than %d choices", MODEL_CHOICES);
        M_.choices[M_.recorded].chosen = 0;
        M_.choices[M_.recorded].at = (uint16_t)M_.event_count;
        M_.choices[M_.recorded++].of = (uint16_t)n;
    }
    if (M_.choices[M_.made].of != n || M_.choices[M_.made].at != M_.event_count)
        model_fail("not the same again: does setup set everything that is shared?");
    return M_.choices[M_.made++].chosen;
}

/* Moves to the next branch of the last choice that has one. False: there is none. */
MODEL__UNSEEN static bool model__backtrack(void) {
    while (M_.recorded) {
        if (++M_.choices[M_.recorded - 1].chosen < M_.choices[M_.recorded - 1].of) return true;
        M_.recorded--;
    }
    return false;
}

/* ---- Scheduling ------------------------------------------------------------------------------ */

MODEL__UNSEEN static bool model__can_run(const struct model__thread *t) {
    if (t->state == MODEL__WAITING) {
        int self = model__self;
        model__self = -1;
        bool holds = t->condition && t->condition(t->arg);
        model__self = self;
        return holds;
    }
    if (t->state != MODEL__READY || t->yielded) return false;
    for (int i = 0; i < MODEL_THREADS; i++)
        if (t->behind & 1u << i && M_.threads[i].state == MODEL__READY) return false;
    return true;
}

MODEL__UNSEEN static void model__say_deadlock(void) {
    model__say("deadlock:");
    for (int i = 0; i < MODEL_THREADS; i++)
        if (M_.threads[i].state == MODEL__WAITING) {
            model__say(" thread %d waits at ", i);
            model__say_where(M_.threads[i].at);
        }
}

/* Called by the thread that ran, or by the engine for the first one. Sets model__self. */
MODEL__UNSEEN static void model__pick(void) {
    int candidates[MODEL_THREADS], n = 0, self = model__self;
    bool goes_on = self >= 0 && model__can_run(&M_.threads[self]);
    if (goes_on) candidates[n++] = self;
    if (!goes_on || M_.preempted < M_.preemptions)
        for (int i = 0; i < MODEL_THREADS; i++)
            if (i != self &&
                (model__can_run(&M_.threads[i]) ||
                 (goes_on && M_.threads[i].state == MODEL__WAITING && M_.threads[i].times_out)))
                candidates[n++] = i;
    /* If no thread is runnable: threads that only wait for a step of another thread; then those
     * that can time out. */
    for (int i = 0, none = !n; i < MODEL_THREADS && none; i++)
        if (M_.threads[i].state == MODEL__READY) candidates[n++] = i;
    for (int i = 0, none = !n; i < MODEL_THREADS && none; i++)
        if (M_.threads[i].state == MODEL__WAITING && M_.threads[i].times_out) candidates[n++] = i;
    if (!n) {
        for (int i = 0; i < MODEL_THREADS; i++)
            if (M_.threads[i].state != MODEL__ENDED) {
                model__say_deadlock();
                model__fail_with();
            }
        model__self = -1;
        return;
    }
    int chosen = candidates[model_choose(n)];
    if (goes_on && chosen != self) M_.preempted++;
    model__self = chosen;
    M_.threads[chosen].state = MODEL__READY;
    M_.threads[chosen].yielded = false;
    M_.threads[chosen].ran_at = ++M_.picks;
    for (int i = 0; i < MODEL_THREADS; i++)
        M_.threads[i].behind &= ~(1u << chosen);
}

MODEL__UNSEEN static void model__schedule(void) {
    int self = model__self;
    model__pick();
    if (model__self != self) model__leave(&M_.threads[self]);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

MODEL__UNSEEN static void model__know(struct model_site *site, const char *function) {
    if (site->known) return;
    site->known = true;
    site->function = function;
    site->next = model_sites;
    model_sites = site;
}

MODEL__UNSEEN static struct model__event *model__note(const struct model_site *site) {
    if (M_.event_count == MODEL_EVENTS)
        model_fail("no end after %d steps: threads that wait for each other?", MODEL_EVENTS);
    struct model__event *e = &M_.events[M_.event_count++];
    *e = (struct model__event){.site = site, .thread = model__self};
    return e;
}

/* Before each operation: another thread may run first. False: called by setup or check. */
MODEL__UNSEEN static bool model__step(struct model_site *site, const char *function) {
    if (model__self < 0) return false;
    model__know(site, function);
    if (!M_.threads[model__self].picked) model__schedule();
    M_.threads[model__self].picked = false;
    for (int i = 0; i < MODEL_THREADS; i++)
        if (i != model__self) {
            M_.threads[i].yielded = false;
            M_.threads[i].spins = 0;
        }
    return true;
}

/* After each operation: later accesses are not part of what it passed on. */
MODEL__UNSEEN static void model__tick(void) {
    M_.threads[model__self].now.clock[model__self]++;
}

#include "support/model_memory.c"

/* ---- Waiting --------------------------------------------------------------------------------- */

MODEL__UNSEEN static void model__wait_at(const struct model_site *site, bool (*condition)(void *),
                                         void *arg, bool times_out) {
    struct model__thread *t = &M_.threads[model__self];
    t->state = MODEL__WAITING;
    t->at = site;
    t->condition = condition;
    t->arg = arg;
    t->times_out = times_out;
    model__schedule();
    t->picked = true;
}

MODEL__UNSEEN void model__wait(struct model_site *site, const char *function,
                               bool (*condition)(void *), void *arg) {
    if (model__self < 0) model_fail("%s:%d: only threads can wait", site->file, site->line);
    model__know(site, function);
    model__wait_at(site, condition, arg, false);
    model__note(site);
}

MODEL__UNSEEN bool model__has_token(void *word) {
    return *(uint32_t *)word == 1;
}

MODEL__UNSEEN void model__futex_wait(struct model_site *site, const char *function,
                                     const uint32_t *word, uint32_t value, bool times_out) {
    if (!model__step(site, function)) return;
    model__note(site);
    model__touch(word, sizeof *word, MODEL__ATOMIC_READ, site);
    if (*word == value) model__wait_at(site, NULL, (void *)(uintptr_t)word, times_out);
}

MODEL__UNSEEN int model__futex_wake(struct model_site *site, const char *function,
                                    const uint32_t *word, int n) {
    if (!model__step(site, function)) return 0;
    model__note(site);
    for (int woken = 0;; woken++) {
        struct model__thread *sleeping[MODEL_THREADS];
        int count = 0;
        for (struct model__thread *t = M_.threads; t < M_.threads + MODEL_THREADS; t++)
            if (t->state == MODEL__WAITING && !t->condition && t->arg == word)
                sleeping[count++] = t;
        if (!count || woken == n) return woken;
        sleeping[model_choose(count)]->state = MODEL__READY;
    }
}

/* ---- Executions ------------------------------------------------------------------------------ */

MODEL__UNSEEN int model_self(void) {
    return model__self;
}

MODEL__UNSEEN static void model__entry(void *arg) {
    struct model__thread *t = arg;
    aw__side_arrived(&t->side, &M_.main);
    M_.switching = false;
    for (;;) {
        t->body();
        t->state = MODEL__ENDED;
        if (model__self >= 0) model__pick();
        model__leave(t);
    }
}

MODEL__UNSEEN static void model__make_threads(void) {
    static char stacks[MODEL_THREADS + 1][MODEL_STACK] __attribute__((aligned(16)));
    for (int i = 0; i <= MODEL_THREADS; i++) {
        struct model__thread *t = &M_.threads[i];
        if (t->stack) aw__side_end(&t->side, stacks[i], stacks[i] + MODEL_STACK);
        t->stack = stacks[i];
        aw__side_init(&t->side, t->stack, t->stack + MODEL_STACK, model__entry, t);
    }
}

/* Runs thread i until it leaves. */
MODEL__UNSEEN static void model__resume(int i) {
    for (int k = 0; k < M_.local_count; k++)
        memcpy(M_.locals[k].p, M_.locals[k].saved[i], M_.locals[k].size);
    M_.switching = true;
    aw__side_switch(&M_.main, &M_.threads[i].side, 0);
    for (int k = 0; k < M_.local_count; k++)
        memcpy(M_.locals[k].saved[i], M_.locals[k].p, M_.locals[k].size);
}

/* Runs setup or check. */
MODEL__UNSEEN static void model__run_alone(void (*body)(void)) {
    if (!body || M_.has_failed) return;
    M_.threads[MODEL_THREADS].body = body;
    model__self = -1;
    model__resume(MODEL_THREADS);
}

MODEL__UNSEEN static void model__free_blocks(void) {
    for (int i = 0; i < M_.block_count; i++)
        free(M_.blocks[i].p);
    M_.block_count = 0;
}

MODEL__UNSEEN static void model__execute(const struct model *m) {
    model__free_blocks();
    M_.execution++;
    M_.made = M_.picks = M_.preempted = M_.staled = M_.location_count = M_.store_count =
        M_.event_count = 0;
    M_.local_count = M_.used_count = 0;
    M_.length = 0;
    model_thread_local(&errno, sizeof errno);
    memset(&M_.seq, 0, sizeof M_.seq);
    model__run_alone(m->setup);
    for (int i = 0; i < MODEL_THREADS; i++) {
        struct model__thread *t = &M_.threads[i];
        t->body = m->threads[i];
        t->state = t->body ? MODEL__READY : MODEL__ENDED;
        t->yielded = false;
        t->picked = true;
        t->spins = t->ran_at = t->yielded_at = 0;
        t->behind = 0;
        memset(&t->now, 0, sizeof t->now);
        memset(&t->loaded, 0, sizeof t->loaded);
        memset(&t->released, 0, sizeof t->released);
        t->now.clock[i] = 1;
        for (int k = 0; k < M_.local_count; k++)
            memcpy(M_.locals[k].saved[i], M_.locals[k].saved[MODEL_THREADS], M_.locals[k].size);
    }
    if (!M_.has_failed) model__pick();
    while (model__self >= 0)
        model__resume(model__self);
    model__run_alone(m->check);
}

struct model_result model_explore(const struct model *m) MODEL__UNSEEN;
struct model_result model_explore(const struct model *m) {
    struct model_result r = {0};
    const char *deeper = getenv("AWAKE_MODEL_DEEPER");
    int more = deeper ? atoi(deeper) : 0, stale = test_under_sanitizer() ? 1 : 2;
    uint64_t limit = more ? UINT64_MAX : m->limit ? (uint64_t)m->limit : 1000000;
    M_.preemptions = more + (m->preemptions < 0 ? 0 : m->preemptions ? m->preemptions : 2);
    M_.stale = more + (m->stale < 0 ? 0 : m->stale ? m->stale : stale);
    M_.recorded = 0;
    M_.has_failed = false;
    model__make_threads();
    do {
        if (r.executions == limit) {
            r.failure = "there are more executions than the limit allows";
            r.exceeded = true;
            return r;
        }
        model__execute(m);
        r.executions++;
        if ((uint64_t)M_.event_count > r.steps) r.steps = (uint64_t)M_.event_count;
    } while (!M_.has_failed && model__backtrack());
    model__free_blocks();
    r.failure = M_.has_failed ? M_.message : NULL;
    return r;
}
