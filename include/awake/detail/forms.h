/* SPDX-License-Identifier: MIT
 *
 * awake/detail/forms.h: private. The typed forms of calls that take a future by value. The value,
 * into and status forms run a future to its end by a type-erased call, for instance
 *
 *     #define AW__RUN aw_run_future(&aw__main_.future)
 *
 *     #define aw_run(...)              AW__VALUE(aw__main_, AW__RUN, __VA_ARGS__)
 *     #define aw_run_into(result, ...) AW__INTO(aw__main_, result, AW__RUN, __VA_ARGS__)
 *     #define aw_run_status(...)       AW__STATUS(aw__main_, AW__RUN, __VA_ARGS__)
 *
 * The first argument is the variable that holds the future. Each call has its own name for it, so
 * that -Wshadow accepts a call in the arguments of another one. */
#ifndef AWAKE_DETAIL_FORMS_H
#define AWAKE_DETAIL_FORMS_H

#include <awake/detail/compiler.h>

/* ---- Value, into, status ------------------------------------------------------------------- */

#define AW__VALUE(f, call, ...)                                                                    \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) f = (__VA_ARGS__);                                                 \
        AW__VALUE_OF(f, call);                                                                     \
    })
#define AW__INTO(f, result, call, ...)                                                             \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) f = (__VA_ARGS__);                                                 \
        AW__INTO_OF(f, result, call);                                                              \
    })
#define AW__STATUS(f, call, ...)                                                                   \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) f = (__VA_ARGS__);                                                 \
        AW__STATUS_OF(f, call);                                                                    \
    })

/* The same for a future `f` that is declared: the output, 0 with the output in *result, or 0 with
 * the output discarded; or the negative errno of `call`. The last statements of a block. */
#define AW__VALUE_OF(f, call)                                                                      \
    AW__ASSERT_ERRNO(f.out);                                                                       \
    int aw__err = call;                                                                            \
    (__typeof__(f.out))(aw__err ? aw__err : f.out)
#define AW__INTO_OF(f, result, call)                                                               \
    int aw__err = call;                                                                            \
    if (!aw__err) *(result) = f.out;                                                               \
    aw__err
#define AW__STATUS_OF(f, call)                                                                     \
    int aw__err = call;                                                                            \
    if (!aw__err) aw_future_discard(&f.future);                                                    \
    aw__err

/* The value form returns an error in place of the output: the output must be able to hold one. */
#ifdef __cplusplus
#define AW__ASSERT_ERRNO(x)                                                                        \
    static_assert((__typeof__(x))-1 < (__typeof__(x))0 &&                                          \
                      (__typeof__(x))1 / 2 == (__typeof__(x))0,                                    \
                  "this output cannot carry an error: use the _into or the _status form")
#else
#define AW__ASSERT_ERRNO(x)                                                                        \
    _Static_assert(AW__IS_ERRNO(x),                                                                \
                   "this output cannot carry an error: use the _into or the _status form")
#define AW__IS_ERRNO(x)                                                                            \
    _Generic((x), signed char : 1, short : 1, int : 1, long : 1, long long : 1, default : 0)
#endif

/* The calls of awake/runtime.h and awake/wait.h. */
#define AW__BLOCK_ON(rt)   aw_block_on_future((rt), &aw__main_.future)
#define AW__RUN            aw_run_future(&aw__main_.future)
#define AW__WAIT(duration) aw_wait_future(&aw__waited.future, (duration))

/* ---- Moving a future, taking an output ----------------------------------------------------- */

/* The value of `call`, which moves the future in the variable `f` to memory of its own. */
#define AW__MOVE(f, call, ...)                                                                     \
    __extension__({                                                                                \
        AW__ASSERT_ALIGNED(__VA_ARGS__);                                                           \
        __typeof__(__VA_ARGS__) f = (__VA_ARGS__);                                                 \
        call;                                                                                      \
    })

/* Memory for futures is aligned to 16 bytes. */
#define AW__ASSERT_ALIGNED(...)                                                                    \
    AW__STATIC_ASSERT(__alignof__(__typeof__(__VA_ARGS__)) <= 16,                                  \
                      "a future that is aligned to more than 16 bytes cannot be moved there")

/* The value of `out`, read before `drop` releases the memory that holds it. The other arguments
 * declare a variable that both use. */
#define AW__TAKE(out, drop, ...)                                                                   \
    __extension__({                                                                                \
        __VA_ARGS__;                                                                               \
        __typeof__(out) aw__out = out;                                                             \
        drop;                                                                                      \
        aw__out;                                                                                   \
    })

#endif
