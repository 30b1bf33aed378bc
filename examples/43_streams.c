/* SPDX-License-Identifier: MIT
 *
 * Streams: values that arrive one after the other.
 *
 * A generator reads a directory slowly and yields one name at a time. A filter passes the C files.
 * A future for each name, three of them at once, measures the file. Chunks collect the sizes in
 * groups of four, or fewer if 50 ms have passed since the first one. Nothing runs before the next
 * item is requested, and no stage runs ahead further than its limit.
 *
 * Notice the order of the sizes: they arrive as they are known, and the large file comes late.
 * AW_BUFFERED would keep the order of the names.
 *
 * Notice also the second reading. It is closed half-way, and the generator closes its directory.
 * That takes a while, and aw_stream_close waits for it. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"a.c", "huge.c", "notes.txt", "b.c",
                                    "c.c", "d.c",    "e.c",       "f.c"};

/* ---- The stages ------------------------------------------------------------------------------ */

AW_GENERATOR(const char *, directory, size_t i; aw_sleep disk;) {
    AW_BEGIN;
    printf("  the directory is open\n");
    for (self->i = 0; self->i < sizeof names / sizeof names[0]; self->i++) {
        AW_AWAIT(self->disk, aw_sleep_for(AW_MSEC(10)));
        AW_YIELD_VALUE(names[self->i]);
    }
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->disk, aw_sleep_for(AW_MSEC(10)));
        printf("  the directory is closed\n");
    }
    AW_END;
}

AW_FILTER(in_c, const char *) {
    return strstr(*item, ".c") != NULL;
}

AW_ASYNC(int, measure, const char *name; aw_sleep disk;) {
    AW_BEGIN;
    AW_AWAIT(self->disk, aw_sleep_for(AW_MSEC(self->name[0] == 'h' ? 45 : 15)));
    AW_RETURN(self->name[0] == 'h' ? 5000 : self->name[0]);
    AW_END;
}
AW_CONCURRENT(struct measure, sizes, const char *) {
    return AW_CALL(measure, .name = *item);
}

/* ---- The pipeline ---------------------------------------------------------------------------- */

struct start {
    AW_FRAME(int);
    struct directory files;
    struct in_c sources;
    struct sizes measured;
    AW_CHUNKS(int, 4) groups;
    aw_stream_next_future next;
    aw_stream_close_future close;
    uint64_t begin;
};
AW_ASYNC_STATIC(start) {
    AW_BEGIN;
    self->files = AW_GENERATE(directory);
    self->sources = AW_ADAPTER(in_c, &self->files);
    self->measured = AW_UNORDERED(sizes, &self->sources, 3);
    aw_stream_chunks(&self->groups, &self->measured, AW_MSEC(50));
    printf("the streams are set up; nothing has run\n");

    self->begin = aw_now(NULL);
    AW_STREAM_EACH(self->next, &self->groups) {
        printf("%3d ms:", (int)((aw_now(NULL) - self->begin) / AW_MSEC(1)));
        for (size_t i = 0; i < self->groups.item->count; i++)
            printf(" %d", self->groups.item->items[i]);
        printf("\n");
    }

    self->files = AW_GENERATE(directory);
    AW_STREAM_EACH(self->next, &self->files) {
        printf("%s\n", *self->files.item);
        if (strcmp(*self->files.item, "huge.c") == 0) break;
    }
    printf("enough\n");
    AW_AWAIT(self->close, aw_stream_close(&self->files));
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.paused = true; /* the clock jumps to the next timer when all tasks are idle */
    aw_runtime *rt;
    int error = aw_runtime_new(&rt, &options);
    if (error) return error;
    error = aw_block_on(rt, AW_CALL(start));
    aw_runtime_free(rt);
    return error;
}
