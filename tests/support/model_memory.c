/* SPDX-License-Identifier: MIT
 *
 * The memory of model.c, which includes this file: what each thread knows, data races, and the
 * operations. */

/* ---- Views ----------------------------------------------------------------------------------- */

MODEL__UNSEEN static void model__raise(uint16_t *a, uint16_t b) {
    if (*a < b) *a = b;
}

MODEL__UNSEEN static void model__join(struct model__view *a, const struct model__view *b) {
    for (int i = 0; i < M_.location_count; i++)
        model__raise(&a->seen[i], b->seen[i]);
    for (int i = 0; i < MODEL_THREADS; i++)
        model__raise(&a->clock[i], b->clock[i]);
}

MODEL__UNSEEN static uint64_t model__get(const void *p, unsigned size) {
    uint64_t v = 0;
    memcpy(&v, p, size); /* little endian */
    return v;
}

MODEL__UNSEEN static struct model__store *model__add_store(struct model__location *l,
                                                           uint64_t value) {
    if (M_.store_count == MODEL_STORES) model_fail("more than %d stores", MODEL_STORES);
    struct model__store *s = &M_.stores[M_.store_count++];
    s->value = value;
    s->index = l->newest ? (uint16_t)(l->newest->index + 1) : 0;
    s->older = l->newest;
    memset(&s->view, 0, sizeof s->view);
    l->newest = s;
    return s;
}

/* ---- Plain memory ---------------------------------------------------------------------------- */

MODEL__UNSEEN static struct model__cell *model__find_cell(uintptr_t granule) {
    for (uintptr_t i = granule * 0x9e3779b97f4a7c15u >> 40, n = 0; n < MODEL_CELLS; i++, n++) {
        struct model__cell *c = &M_.cells[i % MODEL_CELLS];
        if (c->execution == M_.execution && c->granule == granule) return c;
        if (c->execution == M_.execution) continue;
        memset(c, 0, sizeof *c);
        c->execution = M_.execution;
        c->granule = granule;
        M_.used[M_.used_count++] = c;
        for (int k = 0; k < M_.block_count; k++)
            if (granule - (uintptr_t)M_.blocks[k].p / 8 < (M_.blocks[k].size + 7) / 8)
                c->freed = M_.blocks[k].freed;
        return c;
    }
    model_fail("more than %d words of memory are used", MODEL_CELLS);
}

MODEL__UNSEEN static void model__say_race(const struct model__cell *c, enum model__access mine,
                                          enum model__access other, int thread, const void *where) {
    static const char *const names[] = {"read", "write", "atomic read", "atomic write"};
    const struct model_site *s = model_sites;
    while (s && s != where)
        s = s->next;
    model__say("data race: %s by thread %d at ", s && s->kind == MODEL_FREE ? "free" : names[mine],
               model__self);
    model__say_where(where);
    model__say(", unordered with the %s by thread %d at ", names[other], thread);
    model__say_where(c->where[other][thread]);
    model__fail_with();
}

/* Finds the access that conflicts. Accesses that happened before do not. */
MODEL__UNSEEN static void model__find_race(const struct model__cell *c, unsigned from, unsigned to,
                                           enum model__access mine, const void *where) {
    static const uint8_t conflicts[MODEL__ACCESSES] = {
        [MODEL__PLAIN_READ] = 1 << MODEL__PLAIN_WRITE | 1 << MODEL__ATOMIC_WRITE,
        [MODEL__PLAIN_WRITE] = 15,
        [MODEL__ATOMIC_READ] = 1 << MODEL__PLAIN_WRITE,
        [MODEL__ATOMIC_WRITE] = 1 << MODEL__PLAIN_READ | 1 << MODEL__PLAIN_WRITE};
    const uint16_t *known = M_.threads[model__self].now.clock;
    for (int other = 0; other < MODEL__ACCESSES; other++)
        if (conflicts[mine] & 1 << other)
            for (int i = 0; i < MODEL_THREADS; i++)
                for (unsigned k = from; k < to && i != model__self; k++)
                    if (c->when[other][i][k] > known[i])
                        model__say_race(c, mine, (enum model__access)other, i, where);
}

/* A thread is about to access a part of a cell. */
MODEL__UNSEEN static void model__touch_cell(struct model__cell *c, unsigned from, unsigned to,
                                            enum model__access mine, const void *where) {
    int self = model__self;
    const uint16_t *known = M_.threads[self].now.clock;
    if (c->freed) {
        model__say("use after free by thread %d at ", self);
        model__say_where(where);
        model__say(", freed at ");
        model__say_where(c->freed);
        model__fail_with();
    }
    bool unordered = false;
    for (int i = 0; i < MODEL_THREADS; i++)
        unordered |= i != self && c->last[i] > known[i];
    if (unordered) model__find_race(c, from, to, mine, where);
    for (unsigned k = from; k < to; k++) {
        c->when[mine][self][k] = known[self];
        if (mine == MODEL__PLAIN_WRITE && c->location[k])
            M_.locations[c->location[k] - 1].overwritten = true;
    }
    c->last[self] = known[self];
    c->where[mine][self] = where;
}

MODEL__UNSEEN static void model__touch(const void *p, size_t size, enum model__access mine,
                                       const void *where) {
    for (uintptr_t a = (uintptr_t)p, end = a + size, next; a < end; a = next) {
        next = (a | 7) + 1;
        model__touch_cell(model__find_cell(a / 8), a % 8,
                          (unsigned)((next < end ? next : end) - (a & ~(uintptr_t)7)), mine, where);
    }
}

MODEL__UNSEEN static void model__touch_plainly(const void *p, size_t size, enum model__access mine,
                                               const void *where) {
    if (model__self < 0 || M_.switching) return;
    for (int i = 0; i < M_.local_count; i++)
        if ((uintptr_t)p - (uintptr_t)M_.locals[i].p < M_.locals[i].size) return;
    model__touch(p, size, mine, where);
}

MODEL__UNSEEN void model__access(struct model_site *site, const char *function, const void *p) {
    if (model__self < 0) return;
    model__know(site, function);
    model__note(site);
    model__touch_plainly(p, site->size,
                         site->kind == MODEL_READ ? MODEL__PLAIN_READ : MODEL__PLAIN_WRITE, site);
}

MODEL__UNSEEN void *model__alloc(size_t size) {
    if (M_.block_count == MODEL_BLOCKS) model_fail("more than %d allocations", MODEL_BLOCKS);
    char *p = calloc(1, size ? size : 1);
    M_.blocks[M_.block_count++] = (struct model__block){p, size, NULL};
    return p;
}

/* Conflicts like a write to the whole block. Its address is not reused in this execution. */
MODEL__UNSEEN void model__free(struct model_site *site, const char *function, void *p) {
    if (!p) return;
    model__know(site, function);
    int i = 0;
    while (i < M_.block_count && M_.blocks[i].p != p)
        i++;
    if (model__self >= 0) model__note(site);
    if (i == M_.block_count)
        model_fail("%s:%d: %s: not allocated", site->file, site->line, site->text);
    if (M_.blocks[i].freed)
        model_fail("%s:%d: %s: freed before", site->file, site->line, site->text);
    uintptr_t first = (uintptr_t)p / 8, granules = (M_.blocks[i].size + 7) / 8;
    for (int k = 0; k < M_.used_count; k++)
        if (M_.used[k]->granule - first < granules) {
            if (model__self >= 0) model__touch_cell(M_.used[k], 0, 8, MODEL__PLAIN_WRITE, site);
            M_.used[k]->freed = site;
        }
    M_.blocks[i].freed = site;
}

MODEL__UNSEEN int model_allocated(void) {
    int n = 0;
    for (int i = 0; i < M_.block_count; i++)
        n += !M_.blocks[i].freed;
    return n;
}

MODEL__UNSEEN void model_thread_local(void *p, size_t size) {
    if (M_.local_count == 4 || size > sizeof M_.locals[0].saved[0]) model_fail("too much is local");
    M_.locals[M_.local_count].p = p;
    M_.locals[M_.local_count++].size = size;
}

/* ---- Operations ------------------------------------------------------------------------------ */

MODEL__UNSEEN static void model__put(const void *p, unsigned size, uint64_t v) {
    memcpy((void *)(uintptr_t)p, &v, size);
}

MODEL__UNSEEN static uint64_t model__combine(const struct model_site *site, uint64_t old,
                                             uint64_t v) {
    uint64_t mask = site->size < 8 ? ((uint64_t)1 << site->size * 8) - 1 : UINT64_MAX;
    switch (site->kind) {
    case MODEL_LOAD: return old;
    case MODEL_ADD: v = old + v; break;
    case MODEL_SUB: v = old - v; break;
    case MODEL_OR: v = old | v; break;
    case MODEL_AND: v = old & v; break;
    default: break;
    }
    return v & mask;
}

/* The location of an operation. It is created by its first operation. */
MODEL__UNSEEN static struct model__location *model__locate(const struct model_site *site,
                                                           const void *p) {
    model__touch(p, site->size, MODEL__ATOMIC_READ,
                 /* Stores count as a read here, too: the location is looked up. */
                 site);
    uint8_t *known = &model__find_cell((uintptr_t)p / 8)->location[(uintptr_t)p % 8];
    uint64_t value = model__get(p, site->size);
    struct model__location *l;
    if (!*known) {
        if (M_.location_count == MODEL_LOCATIONS)
            model_fail("more than %d atomic locations", MODEL_LOCATIONS);
        l = &M_.locations[M_.location_count++];
        *l = (struct model__location){.size = site->size};
        *known = (uint8_t)M_.location_count;
        model__add_store(l, value);
    }
    l = &M_.locations[*known - 1];
    if (l->size != site->size)
        model_fail("%s:%d: %s: its size was another one before", site->file, site->line,
                   site->text);
    if (l->overwritten || l->newest->value != value) {
        l->floor = model__add_store(l, value)->index;
        l->overwritten = false;
    }
    return l;
}

/* Chooses one of the stores that a load may return; none of the old ones with the value `but`. */
MODEL__UNSEEN static struct model__store *model__pick_store(struct model__location *l,
                                                            unsigned orders, const uint64_t *but) {
    long i = l - M_.locations;
    uint16_t floor = l->floor;
    model__raise(&floor, M_.threads[model__self].now.seen[i]);
    if (orders & MODEL_SEQ_CST) model__raise(&floor, M_.seq.seen[i]);
    struct model__store *found[64] = {l->newest};
    int n = 1;
    if (M_.staled < M_.stale)
        for (struct model__store *s = l->newest->older; s && s->index >= floor && n < 64;
             s = s->older)
            if (!but || s->value != *but) found[n++] = s;
    int chosen = model_choose(n);
    M_.staled += chosen != 0;
    return found[chosen];
}

MODEL__UNSEEN static void model__read_store(struct model__location *l, const struct model__store *s,
                                            unsigned orders) {
    struct model__thread *t = &M_.threads[model__self];
    long i = l - M_.locations;
    model__raise(&t->now.seen[i], s->index);
    model__join(orders & MODEL_ACQUIRE ? &t->now : &t->loaded, &s->view);
    if (orders & MODEL_SEQ_CST) model__raise(&M_.seq.seen[i], s->index);
}

/* `from` is the store that a read-modify-write has read: its release sequence continues. */
MODEL__UNSEEN static void model__write_store(struct model__location *l,
                                             const struct model_site *site, const void *p,
                                             uint64_t value, unsigned orders,
                                             const struct model__store *from) {
    struct model__thread *t = &M_.threads[model__self];
    long i = l - M_.locations;
    model__touch(p, site->size, MODEL__ATOMIC_WRITE, site);
    struct model__store *s = model__add_store(l, value);
    t->now.seen[i] = s->index;
    s->view = orders & MODEL_RELEASE ? t->now : t->released;
    s->view.seen[i] = s->index;
    if (from) model__join(&s->view, &from->view);
    if (orders & MODEL_SEQ_CST) M_.seq.seen[i] = s->index;
    model__put(p, site->size, value);
}

MODEL__UNSEEN uint64_t model__op(struct model_site *site, const char *function, const void *p,
                                 uint64_t v) {
    if (!model__step(site, function)) {
        uint64_t old = model__get(p, site->size);
        model__put(p, site->size, model__combine(site, old, v));
        return old;
    }
    unsigned orders = site->orders & ~site->weak;
    struct model__event *e = model__note(site);
    struct model__location *l = model__locate(site, p);
    struct model__store *s = site->kind == MODEL_LOAD ? model__pick_store(l, orders, NULL)
                                                      : l->newest;
    e->before = s->value;
    e->newest = l->newest->value;
    e->after = model__combine(site, s->value, v);
    if (site->kind != MODEL_STORE) model__read_store(l, s, orders);
    if (site->kind != MODEL_LOAD)
        model__write_store(l, site, p, e->after, orders, site->kind == MODEL_STORE ? NULL : s);
    model__tick();
    return s->value;
}

MODEL__UNSEEN bool model__cas(struct model_site *site, const char *function, const void *p,
                              uint64_t *expected, uint64_t desired) {
    uint64_t wanted = model__combine(site, 0, *expected), v = model__combine(site, 0, desired);
    if (!model__step(site, function)) {
        *expected = model__get(p, site->size);
        if (*expected == wanted) model__put(p, site->size, v);
        return *expected == wanted;
    }
    unsigned orders = site->orders & ~site->weak;
    unsigned failure = orders & MODEL_FAILURE ? MODEL_ACQUIRE : MODEL_RELAXED;
    struct model__event *e = model__note(site);
    struct model__location *l = model__locate(site, p);
    struct model__store *s = model__pick_store(l, failure, &wanted);
    e->before = *expected = s->value;
    e->newest = l->newest->value;
    e->after = v;
    e->failed = s->value != wanted;
    model__read_store(l, s, e->failed ? failure : orders);
    if (!e->failed) model__write_store(l, site, p, v, orders, s);
    model__tick();
    return !e->failed;
}

MODEL__UNSEEN void model__fence(struct model_site *site, const char *function) {
    if (!model__step(site, function)) return;
    unsigned orders = site->orders & ~site->weak;
    struct model__thread *t = &M_.threads[model__self];
    model__note(site);
    if (orders & MODEL_ACQUIRE) model__join(&t->now, &t->loaded);
    if (orders & MODEL_SEQ_CST) /* shares known stores, but creates no happens-before */
        for (int i = 0; i < M_.location_count; i++) {
            model__raise(&t->now.seen[i], M_.seq.seen[i]);
            M_.seq.seen[i] = t->now.seen[i];
        }
    if (orders & MODEL_RELEASE) t->released = t->now;
    model__tick();
}

MODEL__UNSEEN void model__yield(struct model_site *site, const char *function) {
    if (model__self < 0) return;
    struct model__thread *t = &M_.threads[model__self];
    model__know(site, function);
    model__note(site);
    if (++t->spins > MODEL_SPINS)
        model_fail("livelock: thread %d spins at %s:%d and no other thread can run", model__self,
                   site->file, site->line);
    t->yielded = true;
    /* Threads that were runnable since its previous yield, and did not run, now come first.
     * Otherwise two spinning threads could starve a third one that they wait for. */
    for (int i = 0; i < MODEL_THREADS; i++)
        if (i != model__self && t->yielded_at && M_.threads[i].ran_at <= t->yielded_at)
            t->behind |= 1u << i;
    t->yielded_at = M_.picks;
    model__schedule();
    t->picked = true;
}
