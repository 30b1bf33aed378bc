/* SPDX-License-Identifier: MIT
 *
 * awake/generator.h: streams written as functions that yield values and may await in between.
 *
 *     AW_GENERATOR(int, countdown, int from; aw_sleep nap;) {
 *         AW_BEGIN;
 *         for (; self->from > 0; self->from--) {
 *             AW_YIELD_VALUE(self->from);
 *             AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(1)));
 *         }
 *         AW_END;
 *     }
 *
 *     self->down = AW_GENERATE(countdown, .from = 3);              of type `struct countdown`
 *     AW_STREAM_EACH(self->next, &self->down) printf("%d\n", *self->down.item);
 *
 * All rules of awake/async.h apply. The function runs only when the next value is requested.
 * AW_FINALLY may await. It releases what the function holds: at the end, and when the stream is
 * closed early (aw_stream_close), even before the first value. AW_RETURN(error) ends the stream
 * with an error, AW_RETURN(0) ends it normally.
 *
 * As a fiber, a generator can yield at any call depth:
 *
 *     AW_FIBER_GENERATOR(int, visit, const struct tree *tree;) { return walk(self, self->tree); }
 *     static int walk(struct visit *to, const struct tree *tree) {
 *         ...
 *         int error = aw_yield_value(to, tree->value);             -ECANCELED: the stream is closed
 *
 * When the stream is closed, its yields and awaits return -ECANCELED; the fiber cleans up and
 * returns. It returns 0, or an error that the stream ends with.
 *
 * A generator must be closed, or have ended, before its frame goes away. */
#ifndef AWAKE_GENERATOR_H
#define AWAKE_GENERATOR_H

#include <awake/detail/generator.h>
#include <awake/fiber.h>
#include <awake/stream.h>

/* To use a generator in several files, declare it in a header, and define it in one source file
 * with AW_GENERATOR_DEF(name) { ... }:
 *     struct countdown { AW_GENERATOR_FRAME(int); int from; aw_sleep nap; };
 *     AW_GENERATOR_DECL(countdown); */
#define AW_GENERATOR_FRAME(T)                                                                      \
    AW_FRAME(int);                                                                                 \
    AW__GENERATOR_MEMBERS(T)
#define AW_FIBER_GENERATOR_FRAME(T)                                                                \
    AW_FIBER_FRAME(int);                                                                           \
    AW__GENERATOR_MEMBERS(T)

#define AW_GENERATOR(T, ...)       AW__GENERATOR(T, __VA_ARGS__)
#define AW_GENERATOR_DEF(fn)       AW__GENERATOR_DEF(fn)
#define AW_FIBER_GENERATOR(T, ...) AW__FIBER_GENERATOR(T, __VA_ARGS__)
#define AW_FIBER_GENERATOR_DEF(fn) AW__FIBER_GENERATOR_DEF(fn)
#define AW_GENERATOR_DECL(fn)      AW__GENERATOR_DECL(fn)
#define AW_GENERATE(...)           AW__GENERATE(__VA_ARGS__, )

/* Yield a value from a fiber: 0; -ECANCELED: the stream is being closed. The stream owns the value
 * in either case: if no consumer can take it any more, it is dropped (aw_stream_drop_with). */
#define aw_yield_value(generator, ...) AW__YIELD_FROM_FIBER(generator, __VA_ARGS__)

#ifndef __cplusplus
/* Yield a value, and continue here when the next one is requested. Not in AW_FINALLY. When the
 * generator is being closed, the value is not evaluated and control goes to AW_FINALLY. */
#define AW_YIELD_VALUE(...) AW__YIELD_VALUE(__VA_ARGS__)
#endif

#endif
