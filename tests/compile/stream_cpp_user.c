// What a C++ program can use of streams, without a warning: sources, take, chunks, merges, and
// its own streams.
// MUST COMPILE
// lang: c++
// flags: -Wpedantic -Werror
#include <awake.h>

/* A generator in C, declared in a header that both include. */
struct countdown {
    AW_GENERATOR_FRAME(int);
    int from;
};
AW_GENERATOR_DECL(countdown);

int main() {
    int numbers[3] = {1, 2, 3}, to[3];
    AW_ARRAY_STREAM(int) s;
    AW_TAKE(int) t;
    AW_SKIP(int) k;
    AW_CHUNKS(int, 2) c;
    AW_MERGE(int, 1) m;
    AW_CHANNEL(int) channel;
    AW_CHANNEL_STREAM(int) r;
    aw_interval_stream every;
    aw_stream_array(&s, numbers, 3);
    aw_stream_take(&t, &s, 2);
    aw_stream_skip(&k, &t, 1);
    aw_stream *one[] = {&k.stream};
    aw_stream_merge_of(&m.stream, one, 1);
    aw_stream_chunks(&c, &m, AW_FOREVER);
    int n = aw_wait(aw_stream_next(&c));
    n += aw_wait(aw_stream_collect(&s, to, 3)) + aw_wait(aw_stream_drain(&s)) + aw_wait(aw_stream_close(&c));
    if (aw_channel_init(&channel, 1) < 0 || aw_stream_interval(&every, AW_SEC(1), AW_BURST) < 0) return 1;
    aw_stream_channel(&r, &channel);
    aw_stream_drop_with(&r, nullptr);
    return n == 0;
}
