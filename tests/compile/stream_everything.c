// Everything about streams, in strict C11, without a warning.
// MUST COMPILE
// flags: -Wpedantic -Werror -Wshadow -Wstrict-prototypes
#include <awake.h>

struct point {
    int x, y;
};

AW_MAP(double, half, int) {
    return *item / 2.0;
}
AW_MAP(struct point, make_point, double, int y; int calls, more;) {
    self->calls++;
    return (struct point){(int)*item, self->y};
}
AW_FILTER(even, int) {
    return *item % 2 == 0;
}
AW_FILTER(above, int, int limit;) {
    return *item > self->limit;
}
AW_TAKE_WHILE(small, int) {
    return *item < 100;
}
AW_TAKE_WHILE(below, int, int limit;) {
    return *item < self->limit;
}
AW_FOLD(long, sum, int) {
    self->out += *item;
}
AW_FOLD(struct point, corner, struct point, int calls;) {
    self->calls++;
    self->out = *item;
}

AW_GENERATOR(int, bare) {
    AW_BEGIN;
    AW_YIELD_VALUE(1);
    AW_END;
}
AW_GENERATOR(struct point, points, int n; aw_sleep nap;) {
    AW_BEGIN;
    while (self->n-- > 0) {
        AW_YIELD_VALUE((struct point){1, self->n});
        if (self->n > 3) AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    }
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) AW_YIELD;
    AW_END;
}
AW_FIBER_GENERATOR(int, bare_fiber) {
    return aw_yield_value(self, 1);
}
AW_FIBER_GENERATOR(struct point, point_fiber, int n;) {
    int error = 0;
    while (self->n-- > 0 && !error)
        error = aw_yield_value(self, (struct point){self->n, 2});
    return error;
}
AW_FIBER_DROP(point_fiber) {
    self->n = 0;
}

/* As in a header. */
struct shared {
    AW_GENERATOR_FRAME(int);
    int n;
};
AW_GENERATOR_DECL(shared);
AW_GENERATOR_DEF(shared) {
    AW_BEGIN;
    AW_YIELD_VALUE(self->n);
    AW_END;
}
struct shared_fiber {
    AW_FIBER_GENERATOR_FRAME(int);
    int n;
};
AW_GENERATOR_DECL(shared_fiber);
AW_FIBER_GENERATOR_DEF(shared_fiber) {
    return aw_yield_value(self, self->n);
}

AW_ASYNC(int, job, int n;) {
    AW_BEGIN;
    AW_RETURN(self->n);
    AW_END;
}
AW_MAP_ASYNC(struct job, one, int) {
    return AW_CALL(job, .n = *item);
}
AW_MAP_ASYNC(AW_TIMEOUT(struct job), one_in_time, int, uint64_t limit;) {
    return AW_TIMEOUT_OF(aw__future_one_in_time, self->limit, AW_CALL(job, .n = *item));
}
AW_CONCURRENT(struct job, many, int) {
    return AW_CALL(job, .n = *item);
}
AW_CONCURRENT(aw_sleep, sleeps, int, uint64_t each;) {
    return aw_sleep_for(self->each);
}

static int numbers[3] = {1, 2, 3};

static void forget(void *item) {
    (void)item;
}

AW_ASYNC(int, all, AW_ARRAY_STREAM(int) s; struct half half; struct make_point make_point; struct even even;
         struct above above; struct small small; struct below below; struct sum sum; struct corner corner;
         AW_TAKE(int) take; AW_SKIP(int) skip; struct bare bare; struct points points; struct bare_fiber bare_fiber;
         struct point_fiber point_fiber; struct shared shared; struct shared_fiber shared_fiber; struct one one;
         struct one_in_time in_time; struct many many; struct sleeps sleeps; AW_MERGE(int, 3) merge;
         AW_CHUNKS(struct point, 4) chunks; aw_interval_stream every; AW_CHANNEL(int) channel;
         AW_CHANNEL_STREAM(int) received; aw_stream_next_future next; aw_stream_close_future close;
         aw_stream_drain_future drain; aw_stream_collect_future collect; int to[4]; int n;) {
    AW_BEGIN;
    aw_stream_array(&self->s, numbers, 3);
    aw_stream_drop_with(&self->s, forget);
    self->half = AW_ADAPTER(half, &self->s);
    self->make_point = AW_ADAPTER(make_point, &self->half, .y = 1);
    AW_AWAIT(self->corner, AW_FOLD_OF(corner, &self->make_point, .out = {1, 2}));
    self->even = AW_ADAPTER(even, &self->s);
    self->above = AW_ADAPTER(above, &self->even, .limit = 3);
    self->small = AW_ADAPTER(small, &self->above);
    self->below = AW_ADAPTER(below, &self->small, .limit = 50);
    aw_stream_take(&self->take, &self->below, 3);
    aw_stream_skip(&self->skip, &self->take, 1);
    AW_AWAIT(self->sum, AW_FOLD_OF(sum, &self->skip));
    self->bare = AW_GENERATE(bare);
    self->bare_fiber = AW_GENERATE(bare_fiber, .stack_size = 65536);
    self->shared = AW_GENERATE(shared, .n = 3);
    self->shared_fiber = AW_GENERATE(shared_fiber, .n = 3);
    self->point_fiber = AW_GENERATE(point_fiber, .n = 3);
    aw_stream_merge(&self->merge, &self->bare, &self->bare_fiber, &self->shared);
    self->one = AW_ADAPTER(one, &self->merge);
    self->in_time = AW_ADAPTER(one_in_time, &self->one, .limit = AW_SEC(1));
    self->many = AW_BUFFERED(many, &self->in_time, 3, .errors = true);
    self->sleeps = AW_UNORDERED(sleeps, &self->many, 2, .each = AW_MSEC(1));
    AW_STREAM_EACH(self->next, &self->sleeps) self->n += *self->sleeps.item;
    self->points = AW_GENERATE(points, .n = 10);
    aw_stream_chunks(&self->chunks, &self->points, AW_MSEC(5));
    AW_STREAM_EACH(self->next, &self->chunks) {
        for (size_t i = 0; i < self->chunks.item->count; i++) self->n += self->chunks.item->items[i].x;
        if (self->n > 3) continue;
        if (self->n > 5) break;
    }
    AW_AWAIT(self->collect, aw_stream_collect(&self->shared_fiber, self->to, 4));
    AW_AWAIT(self->drain, aw_stream_drain(&self->point_fiber));
    if (aw_channel_init(&self->channel, 3) < 0) AW_RETURN(1);
    aw_stream_channel(&self->received, &self->channel);
    AW_AWAIT(self->close, aw_stream_close(&self->received));
    if (aw_stream_interval(&self->every, AW_SEC(1), AW_SKIP) < 0) AW_RETURN(1);
    AW_AWAIT(self->close, aw_stream_close(&self->every));
    AW_RETURN(self->n);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(all));
}
