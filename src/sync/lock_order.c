/* SPDX-License-Identifier: MIT
 *
 * Two tasks that take the same mutexes in different orders will meet one day, and then both wait for ever. This finds
 * them when they do not meet. It remembers who holds what, and edges: A was held when B was wanted. An edge that
 * closes a ring is reported.
 *
 * Both are small tables for the whole process, under one lock: this is for debugging. When a table is full the oldest
 * edge is forgotten, and what is held is not noted: then something is not reported. Mutexes go by a number that they
 * get when they are first held, so that a new one in the memory of an old one is not taken for it. */
#include "sync/lock_order.h"

#ifdef AW_LOCK_ORDER

#include "core/lock.h"
#include "core/misuse.h"

enum { HELD = 256, EDGES = 512 };

/* A task by its number in its runtime; a plain thread, or a main future, by something that each thread has. */
typedef struct who {
    const void *where;
    uint64_t task;
} who;

typedef struct edge {
    uint32_t first, second; /* numbers of mutexes; 0: none */
    const aw_place *taken, *wanted;
} edge;

static struct {
    uint32_t lock;
    uint32_t last_number;
    uint32_t held_count, next_edge;
    struct {
        who who;
        const aw_mutex *mutex;
        uint32_t number;
        const aw_place *place;
    } held[HELD];
    edge edges[EDGES];
} order;

static who current(void) {
    static _Thread_local char thread;
    uint64_t task = aw_current_task_id();
    return (who){task ? (const void *)aw_runtime_current() : &thread, task};
}

static uint32_t number_of(aw_mutex *m) {
    if (!m->number) m->number = ++order.last_number;
    return m->number;
}

static edge *find(uint32_t first, uint32_t second) {
    for (edge *e = order.edges; e < order.edges + EDGES; e++)
        if (e->first == first && e->second == second) return e;
    return NULL;
}

/* The first edge of a way from one to the other. Each mutex is tried once: `tried` has room for one of each edge. */
static const edge *find_way(uint32_t from, uint32_t to) {
    struct {
        uint32_t at;
        const edge *begin;
    } tried[EDGES + 1] = {{from, NULL}};
    uint32_t count = 1;
    for (uint32_t i = 0; i < count; i++)
        for (const edge *e = order.edges; e < order.edges + EDGES; e++) {
            const edge *begin = i ? tried[i].begin : e;
            if (!e->first || e->first != tried[i].at) continue;
            if (e->second == to) return begin;
            uint32_t k = 0;
            while (k < count && tried[k].at != e->second)
                k++;
            if (k < count) continue;
            tried[count].at = e->second;
            tried[count++].begin = begin;
        }
    return NULL;
}

/* True: there is a way back, which is `back`. */
static bool add_edge(edge e, edge *back) {
    if (e.first == e.second || find(e.first, e.second)) return false;
    const edge *way = find_way(e.second, e.first);
    if (way) *back = *way;
    order.edges[order.next_edge++ % EDGES] = e;
    return way;
}

static void report(const edge *e, const edge *back) {
    aw__rt_log(
        aw_runtime_current(), AW_LOG_PROBLEM,
        "mutexes are taken in different orders: here B at %s:%d while A is held (taken at %s:%d); "
        "elsewhere A, or one that leads to it, at %s:%d while B is held (taken at %s:%d)",
        e->wanted->file, e->wanted->line, e->taken->file, e->taken->line, back->wanted->file,
        back->wanted->line, back->taken->file, back->taken->line);
}

void aw__order_wanted(aw_mutex *m, const aw_place *place) {
    who me = current();
    edge found = {0, 0, NULL, NULL}, back = found;
    bool wrong = false;
    aw__lock(&order.lock);
    for (uint32_t i = 0; i < order.held_count && !wrong; i++) {
        if (order.held[i].who.where != me.where || order.held[i].who.task != me.task) continue;
        found = (edge){order.held[i].number, number_of(m), order.held[i].place, place};
        wrong = add_edge(found, &back);
    }
    aw__unlock(&order.lock);
    if (wrong) report(&found, &back);
}

void aw__order_taken(aw_mutex *m, const aw_place *place) {
    who me = current();
    aw__lock(&order.lock);
    if (order.held_count < HELD) {
        uint32_t i = order.held_count++;
        order.held[i].who = me;
        order.held[i].mutex = m;
        order.held[i].number = number_of(m);
        order.held[i].place = place;
    }
    aw__unlock(&order.lock);
}

void aw__order_given(const aw_mutex *m) {
    aw__lock(&order.lock);
    for (uint32_t i = 0; i < order.held_count; i++)
        if (order.held[i].mutex == m) {
            order.held[i] = order.held[--order.held_count];
            break;
        }
    aw__unlock(&order.lock);
}

#else
typedef int aw__order_is_not_built; /* ISO C wants something in a file */
#endif
