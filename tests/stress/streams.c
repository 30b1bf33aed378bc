/* SPDX-License-Identifier: MIT
 *
 * Random pipelines. Sources of every kind (generators, fibers, channels that tasks fill) are merged
 * under several layers of every kind. Items are awaited with timeouts, some are discarded, and the
 * pipeline is closed at some point. In the end each item was taken or dropped once, was kept by its
 * sender, or was never produced. Many pipelines at once, on one thread and on workers. */
#include "support/workers.h"

enum { SOURCES = 3, LAYERS = 4, EACH = 40, ITEMS = SOURCES * EACH, PIPELINES = 4 };

struct item {
    struct run *run;
    int id; /* source * EACH + number */
};

typedef AW_CHANNEL(struct item) channel;

/* What became of the items of a pipeline. Only its own task accesses it, except for `made`. */
struct run {
    uint64_t random;
    uint32_t made[SOURCES]; /* atomic: how many were produced, in order */
    uint8_t ends[ITEMS];    /* 1: taken or dropped */
    int last[SOURCES];      /* the last id taken; -1: none */
    bool ordered, dropped_one;
    channel channels[SOURCES];
    bool has_channel[SOURCES];
};

static void end_item(const struct item *i) {
    if (i->run->ends[i->id]++) FAIL("item %d ended twice", i->id);
}
static void drop_item(void *item) {
    end_item(item);
}
static void take_item(const struct item *i) {
    struct run *r = i->run;
    end_item(i);
    if (r->ordered && i->id <= r->last[i->id / EACH]) FAIL("item %d is out of order", i->id);
    r->last[i->id / EACH] = i->id;
}

/* A random sleep, a yield, or nothing. */
struct nap {
    AW_FRAME(int);
    uint64_t random;
    AW_SHARE(aw_sleep sleep; aw_yield pause;);
};
AW_ASYNC_STATIC(nap) {
    AW_BEGIN;
    if (self->random % 4 == 0) AW_AWAIT(self->sleep, aw_sleep_for(AW_USEC(self->random / 8 % 60)));
    if (self->random % 4 == 1) AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

/* ---- Sources --------------------------------------------------------------------------------- */

static struct item make_item(struct run *r, int source) {
    return (struct item){r, source * EACH + (int)ADD(r->made[source], 1)};
}

AW_GENERATOR(struct item, produce, struct run *run; int source; uint64_t random; int i;
             struct nap nap;) {
    AW_BEGIN;
    for (self->i = 0; self->i < EACH; self->i++) {
        AW_AWAIT(self->nap, AW_CALL(nap, .random = test_random(&self->random)));
        AW_YIELD_VALUE(make_item(self->run, self->source));
    }
    AW_FINALLY;
    if (AW_STARTED) AW_AWAIT(self->nap, AW_CALL(nap, .random = test_random(&self->random)));
    AW_END;
}
AW_FIBER_GENERATOR(struct item, produce_fiber, struct run *run; int source; uint64_t random;) {
    int error = 0;
    for (int i = 0; i < EACH && !error; i++) {
        error = aw_await(AW_CALL(nap, .random = test_random(&self->random)));
        if (!error) error = aw_yield_value(self, make_item(self->run, self->source));
    }
    AW_SHIELD {
        aw_await(AW_CALL(nap, .random = test_random(&self->random)));
    }
    return error;
}
/* Sends from another task, until the channel is closed. */
AW_ASYNC(int, fill, struct run *run; int source; uint64_t random; struct item item; int i;
         struct nap nap; aw_channel_future send;) {
    AW_BEGIN;
    for (self->i = 0; self->i < EACH; self->i++) {
        AW_AWAIT(self->nap, AW_CALL(nap, .random = test_random(&self->random)));
        self->item = make_item(self->run, self->source);
        AW_AWAIT(self->send, aw_channel_send(&self->run->channels[self->source], &self->item));
        if (self->send.out) break;
    }
    aw_channel_close(&self->run->channels[self->source]);
    AW_RETURN(self->send.out == -EPIPE ? self->item.id : -1); /* the item that was not sent */
    AW_END;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

AW_MAP(struct item, same, struct item) {
    return *item;
}
AW_FILTER(some, struct item) {
    return item->id % 5 != 2;
}

/* Owns its item until it returns it as its output. */
struct job {
    AW_FRAME(struct item);
    struct item item;
    uint64_t random;
    struct nap nap;
};
static void job_discard(aw_future *self) {
    end_item(&((struct job *)self)->out);
}
AW_ASYNC_STATIC(job, .discard = job_discard) {
    AW_BEGIN;
    AW_AWAIT(self->nap, AW_CALL(nap, .random = self->random));
    AW_RETURN(self->item);
    AW_FINALLY;
    if (self->future.state & AW__CUT) end_item(&self->item);
    AW_END;
}
AW_MAP_ASYNC(struct job, one, struct item) {
    return AW_CALL(job, .item = *item, .random = test_random(&item->run->random));
}
AW_CONCURRENT(struct job, many, struct item) {
    return AW_CALL(job, .item = *item, .random = test_random(&item->run->random));
}

/* Any stream of items. */
struct any {
    AW_STREAM_HEAD(struct item);
};
union layer {
    struct same same;
    struct some some;
    struct one one;
    struct many many;
    AW_TAKE(struct item) take;
};
union source {
    struct produce function;
    struct produce_fiber fiber;
    AW_CHANNEL_STREAM(struct item) channel;
};

/* ---- A pipeline ------------------------------------------------------------------------------ */

struct pipeline {
    AW_FRAME(int);
    uint64_t seed;
    bool fibers;
    struct run *run;
    union source sources[SOURCES];
    union layer layers[LAYERS];
    AW_MERGE(struct item, SOURCES) merge;
    AW_CHUNKS(struct item, 3) chunks;
    bool chunked;
    struct any *end;
    int i, patience;
    uint64_t what;
    struct fill *fills[SOURCES];
    AW_SHARE(AW_TIMEOUT(aw_stream_next_future) next; aw_stream_close_future close;
             aw_task_join_future join; AW_SELECT(aw_stream_next_future, struct nap) select;);
};

static struct any *make_source(struct pipeline *p, int i) {
    struct run *r = p->run;
    union source *s = &p->sources[i];
    uint64_t random = test_random(&r->random);
    switch (random % (p->fibers ? 3 : 2)) {
    case 0:
        s->function = AW_GENERATE(produce, .run = r, .source = i, .random = random);
        aw_stream_drop_with(&s->function, drop_item);
        return (struct any *)(void *)&s->function.stream;
    case 1:
        CHECK_EQ(aw_channel_init(&r->channels[i], 1 + random / 16 % 5), 0);
        aw_channel_set_release(&r->channels[i], drop_item);
        r->has_channel[i] = true;
        p->fills[i] = aw_spawn(AW_CALL(fill, .run = r, .source = i, .random = random));
        aw_stream_channel(&s->channel, &r->channels[i]);
        return (struct any *)(void *)&s->channel.stream;
    default:
        s->fiber = AW_GENERATE(produce_fiber, .run = r, .source = i, .random = random);
        aw_stream_drop_with(&s->fiber, drop_item);
        return (struct any *)(void *)&s->fiber.stream;
    }
}

static struct any *make_layer(struct pipeline *p, int i, struct any *from) {
    struct run *r = p->run;
    union layer *l = &p->layers[i];
    uint64_t random = test_random(&r->random);
    uint32_t limit = 1 + (uint32_t)(random / 16 % 6);
    switch (random % 6) {
    case 0: l->same = AW_ADAPTER(same, from); break;
    case 1: l->some = AW_ADAPTER(some, from); break;
    case 2: l->one = AW_ADAPTER(one, from); break;
    case 3: l->many = AW_BUFFERED(many, from, limit); break;
    case 4:
        l->many = AW_UNORDERED(many, from, limit);
        r->ordered = false;
        break;
    default: aw_stream_take(&l->take, from, 10 + random / 16 % 200); break;
    }
    struct any *made = (struct any *)(void *)l;
    aw_stream_drop_with(made, drop_item);
    return made;
}

static void make_pipeline(struct pipeline *p) {
    struct run *r = p->run;
    r->ordered = true;
    struct any *s[SOURCES];
    for (int i = 0; i < SOURCES; i++) {
        r->last[i] = -1;
        s[i] = make_source(p, i);
    }
    aw_stream_merge(&p->merge, s[0], s[1], s[2]);
    struct any *end = (struct any *)(void *)&p->merge;
    int layers = (int)(test_random(&r->random) % (LAYERS + 1));
    for (int i = 0; i < layers; i++)
        end = make_layer(p, i, end);
    p->chunked = chance(&r->random, 3);
    if (p->chunked) {
        aw_stream_chunks(&p->chunks, end, AW_USEC(test_random(&r->random) % 100));
        end = (struct any *)(void *)&p->chunks.stream;
    }
    p->end = end;
    p->patience = chance(&r->random, 2) ? INT32_MAX : (int)(test_random(&r->random) % 100);
}

static void take_all(struct pipeline *p) {
    if (!p->chunked) {
        take_item(p->end->item);
        return;
    }
    CHECK(p->chunks.item->count > 0 && p->chunks.item->count <= 3);
    for (size_t i = 0; i < p->chunks.item->count; i++)
        take_item(&p->chunks.item->items[i]);
}

/* Each item produced has ended once, except `unsent`, which its sender kept. */
static void check_source(struct run *r, int source, int unsent) {
    int made = (int)r->made[source];
    CHECK_LE(made, EACH);
    for (int i = 0; i < EACH; i++) {
        int id = source * EACH + i;
        if (r->ends[id] != (i < made && id != unsent))
            FAIL("item %d: %d ends of %d", id, r->ends[id], made);
    }
}

AW_ASYNC_STATIC(pipeline) {
    AW_BEGIN;
    self->run = calloc(1, sizeof *self->run);
    self->run->random = self->seed;
    make_pipeline(self);
    while (self->patience-- > 0) {
        self->what = test_random(&self->run->random);
        if (self->what % 8 == 0) {
            AW_AWAIT_SELECT(self->select, aw_stream_next(self->end),
                            AW_CALL(nap, .random = self->what / 8));
            if (!(self->select.out & 1)) continue;
            self->i = self->select.f0.out; /* set even if it is not the winner */
            if (self->what % 3 == 0) {
                aw_select_drop(&self->select); /* puts the item back, unless the stream has ended */
                if (self->i) continue;
            }
        } else {
            AW_AWAIT_FOR(self->next, AW_USEC(self->what % 8 == 1 ? self->what / 8 % 30 : 1000000),
                         aw_stream_next(self->end));
            if (self->next.out) continue;
            self->i = self->next.inner.out;
        }
        CHECK(self->i == 0 || self->i == 1);
        if (!self->i) break;
        take_all(self);
    }
    AW_AWAIT(self->close, aw_stream_close(self->end));
    for (self->i = 0; self->i < SOURCES; self->i++) {
        if (!self->fills[self->i]) {
            check_source(self->run, self->i, -1);
            continue;
        }
        aw_channel_close(&self->run->channels[self->i]);
        AW_AWAIT(self->join, aw_task_join(self->fills[self->i]));
        CHECK_EQ(self->join.out, 0);
        aw_channel_free(&self->run->channels[self->i]); /* drops the items inside */
        check_source(self->run, self->i, aw_task_take(self->fills[self->i]));
    }
    free(self->run);
    AW_RETURN(0);
    AW_END;
}

/* ---- Many pipelines -------------------------------------------------------------------------- */

ON_BOTH(random_pipelines_lose_and_duplicate_nothing) {
    uint64_t random = test_seed();
    memory m;
    kept_log log = KEPT_LOG;
    aw_runtime *rt = new_runtime(workers, &m, &log);
    for (int round = 0; round < stress_rounds(60); round++) {
        struct pipeline *h[PIPELINES];
        for (int i = 0; i < PIPELINES; i++)
            h[i] = aw_spawn_on(
                rt, AW_CALL(pipeline, .seed = test_random(&random), .fibers = chance(&random, 2)));
        for (int i = 0; i < PIPELINES; i++) {
            CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
            aw_task_drop(h[i]);
        }
    }
    workers_end(rt, &m);
    CHECK_STR(log.text, "");
}
