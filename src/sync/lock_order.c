/* SPDX-License-Identifier: MIT
 *
 * Lock order checker, for debug builds. Two tasks that lock the same mutexes in different orders
 * can deadlock. This reports such orders even if no deadlock happens. It records which mutexes are
 * held by which task, and edges: A was held when B was wanted. An edge that closes a cycle is
 * reported.
 *
 * Both are small tables for the whole process, under one lock. When they are full, the oldest edge
 * is overwritten and a held mutex is not recorded: some cycles are then not reported. A mutex is
 * identified by a number that it gets when it is first used, so that a new mutex in the memory of
 * an old one is not mistaken for it. */
#include "sync/lock_order.h"

#ifdef AW_LOCK_ORDER

#include "base/misuse.h"
#include "context/context.h"
#include "os/lock.h"

enum { MAX_HELD = 256, MAX_EDGES = 512 };

/* A task: its runtime and its id. A plain thread or a main future: a thread-local address. */
typedef struct lock_holder {
    const void *where;
    uint64_t task;
} lock_holder;

typedef struct edge {
    uint32_t first, second; /* numbers of mutexes; 0: none */
    const aw_location *taken, *wanted;
} edge;

static struct {
    uint32_t lock;
    uint32_t last_number;
    uint32_t held_count, next_edge;
    struct {
        lock_holder holder;
        const aw_mutex *mutex;
        uint32_t number;
        const aw_location *location;
    } held[MAX_HELD];
    edge edges[MAX_EDGES];
} order;

static lock_holder current_holder(void) {
    static _Thread_local char thread;
    uint64_t task = aw_current_task_id();
    return (lock_holder){task ? (const void *)aw_runtime_current() : &thread, task};
}

static uint32_t number_of(aw_mutex *m) {
    if (!m->number) m->number = ++order.last_number;
    return m->number;
}

static edge *find_edge(uint32_t first, uint32_t second) {
    for (edge *e = order.edges; e < order.edges + MAX_EDGES; e++)
        if (e->first == first && e->second == second) return e;
    return NULL;
}

/* First edge of a path. Each mutex is visited once, so one entry per edge, and one for `from`,
 * suffice. */
static const edge *find_path(uint32_t from, uint32_t to) {
    struct {
        uint32_t mutex;
        const edge *start;
    } visited[MAX_EDGES + 1] = {{from, NULL}};
    uint32_t count = 1;
    for (uint32_t i = 0; i < count; i++)
        for (const edge *e = order.edges; e < order.edges + MAX_EDGES; e++) {
            const edge *start = i ? visited[i].start : e;
            if (!e->first || e->first != visited[i].mutex) continue;
            if (e->second == to) return start;
            uint32_t k = 0;
            while (k < count && visited[k].mutex != e->second)
                k++;
            if (k < count) continue;
            visited[count].mutex = e->second;
            visited[count++].start = start;
        }
    return NULL;
}

/* True: the edge closes a cycle; `*reverse` is the first edge of the path back. */
static bool add_edge(edge e, edge *reverse) {
    if (e.first == e.second || find_edge(e.first, e.second)) return false;
    const edge *path = find_path(e.second, e.first);
    if (path) *reverse = *path;
    order.edges[order.next_edge++ % MAX_EDGES] = e;
    return path;
}

static void report_cycle(const edge *e, const edge *reverse) {
    aw__rt_log(
        aw_runtime_current(), AW_LOG_PROBLEM,
        "mutexes are taken in different orders: B at %s:%d while A is held (taken at %s:%d); "
        "before that A, or a mutex that leads to A, at %s:%d while B was held (taken at %s:%d)",
        e->wanted->file, e->wanted->line, e->taken->file, e->taken->line, reverse->wanted->file,
        reverse->wanted->line, reverse->taken->file, reverse->taken->line);
}

void aw__order_waiting(aw_mutex *m, const aw_location *location) {
    lock_holder me = current_holder();
    edge found = {0, 0, NULL, NULL}, reverse = found;
    bool cycle = false;
    aw__lock(&order.lock);
    for (uint32_t i = 0; i < order.held_count && !cycle; i++) {
        if (order.held[i].holder.where != me.where || order.held[i].holder.task != me.task)
            continue;
        found = (edge){order.held[i].number, number_of(m), order.held[i].location, location};
        cycle = add_edge(found, &reverse);
    }
    aw__unlock(&order.lock);
    if (cycle) report_cycle(&found, &reverse);
}

void aw__order_locked(aw_mutex *m, const aw_location *location) {
    lock_holder me = current_holder();
    aw__lock(&order.lock);
    if (order.held_count < MAX_HELD) {
        uint32_t i = order.held_count++;
        order.held[i].holder = me;
        order.held[i].mutex = m;
        order.held[i].number = number_of(m);
        order.held[i].location = location;
    }
    aw__unlock(&order.lock);
}

void aw__order_unlocked(const aw_mutex *m) {
    aw__lock(&order.lock);
    for (uint32_t i = 0; i < order.held_count; i++)
        if (order.held[i].mutex == m) {
            order.held[i] = order.held[--order.held_count];
            break;
        }
    aw__unlock(&order.lock);
}

#else
typedef int aw__order_is_not_built; /* ISO C forbids an empty file */
#endif
