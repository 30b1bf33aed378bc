/* SPDX-License-Identifier: MIT
 *
 * Stack switches, announced to sanitizers. ASan tracks the bounds of the current stack, and a fake
 * stack for locals (detect_stack_use_after_return). TSan keeps a history for each fiber. Valgrind
 * must know which memory is a stack, if the library is built for it (AW_VALGRIND). */
#ifndef AW_FIBER_ANNOTATE_H
#define AW_FIBER_ANNOTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fiber/switch.h"

#if defined(__SANITIZE_ADDRESS__)
#define AW__ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define AW__TSAN 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define AW__ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define AW__TSAN 1
#endif
#endif

#if defined(AW__ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if defined(AW__TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(AW_VALGRIND)
#include <valgrind/memcheck.h>
#endif

/* Whether the side that is resumed has work to do after the switch. Then it also calls `then` of
 * aw__side_switch_last; otherwise the switch itself does. */
#if defined(AW__ASAN) || defined(AW__TSAN) || !AW__SWITCH_ASSEMBLY
#define AW__SIDE_ARRIVES 1
#else
#define AW__SIDE_ARRIVES 0
#endif

/* One of the two stacks between which a fiber switches: its own, and that of its poll. */
typedef struct aw__side {
    aw__cpu_context context;
#if defined(AW__ASAN)
    void *fake; /* holds its locals; saved while it is suspended */
    const void *bottom;
    size_t size;
#endif
#if defined(AW__TSAN)
    void *history;
#endif
#if AW__SIDE_ARRIVES
    int (*then)(void *arg); /* called on arrival, if not NULL */
    void *arg;
#endif
} aw__side;

/* The address of a local on the current stack, even if ASan keeps it on the fake stack. Any other
 * address is returned unchanged. */
static inline const void *aw__side_address(const void *p) {
#if defined(AW__ASAN)
    void *fake = __asan_get_current_fake_stack();
    void *real = fake ? __asan_addr_is_in_fake_stack(fake, (void *)(uintptr_t)p, NULL, NULL) : NULL;
    if (real) return real;
#endif
    return p;
}

/* Prepares a new stack. The first switch to it calls entry(arg). */
static inline void aw__side_init(aw__side *s, void *low, void *high, void (*entry)(void *arg),
                                 void *arg) {
    aw__cpu_context_init(&s->context, low, high, entry, arg);
#if defined(AW__ASAN)
    s->fake = NULL;
    s->bottom = low;
    s->size = (size_t)((char *)high - (char *)low);
#endif
#if defined(AW__TSAN)
    s->history = __tsan_create_fiber(0);
#endif
}

/* The stack will be reused. `low` is as in init; `high` is the end of its memory. */
static inline void aw__side_end(aw__side *s, void *low, void *high) {
    (void)s, (void)low, (void)high;
#if defined(AW__TSAN)
    __tsan_destroy_fiber(s->history);
#endif
#if defined(AW__ASAN)
    __asan_unpoison_memory_region(low, (size_t)((char *)high - (char *)low));
#endif
}

/* Allows code on another stack to read and write all of this one. */
static inline void aw__side_unpoison(void *low, void *high) {
    (void)low, (void)high;
#if defined(AW__ASAN)
    __asan_unpoison_memory_region(low, (size_t)((char *)high - (char *)low));
#endif
#if defined(AW_VALGRIND)
    VALGRIND_MAKE_MEM_DEFINED(low, (size_t)((char *)high - (char *)low));
#endif
}

/* Called on arrival: after a switch returns, and first of all on a new stack. `self` is the current
 * side, `other` the one that was left. */
static inline void aw__side_arrived(aw__side *self, aw__side *other) {
    (void)self, (void)other;
#if defined(AW__ASAN)
    __sanitizer_finish_switch_fiber(self->fake, &other->bottom, &other->size);
#endif
}

/* Called before a switch. Always inline: TSan tracks the calls of each stack, and a call of this
 * function would begin on one stack and return on the other. */
__attribute__((always_inline)) static inline void aw__side_leave(aw__side *from, aw__side *to,
                                                                 bool last) {
    (void)from, (void)to, (void)last;
#if defined(AW__ASAN)
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake, to->bottom, to->size);
#endif
#if defined(AW__TSAN)
    from->history = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->history, 0);
#endif
}

/* Switches from `from` to `to`, passing `value`. Returns the value that the switch back passes. */
static inline int aw__side_switch(aw__side *from, aw__side *to, int value) {
    aw__side_leave(from, to, false);
#if AW__SIDE_ARRIVES
    value = aw__switch(&from->context, &to->context, value);
    aw__side_arrived(from, to);
    if (!from->then) return value;
    int (*then)(void *) = from->then;
    from->then = NULL;
    return then(from->arg);
#else
    return aw__switch(&from->context, &to->context, value);
#endif
}

/* Leaves `from` for good. Calls then(arg) on the stack of `to`; the switch that is suspended there
 * returns its result. */
static inline void aw__side_switch_last(aw__side *from, aw__side *to, int (*then)(void *arg),
                                        void *arg) {
    aw__side_leave(from, to, true);
#if AW__SIDE_ARRIVES
    to->then = then;
    to->arg = arg;
    aw__switch(&from->context, &to->context, 0);
#else
    aw__switch_last(&to->context, then, arg);
#endif
}

#endif
