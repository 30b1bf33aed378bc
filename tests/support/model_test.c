/* SPDX-License-Identifier: MIT
 *
 * The tests that model.h, which includes this file, makes of a model; and the functions to which
 * the compiler reports plain accesses. */

/* ---- Verdicts -------------------------------------------------------------------------------- */

static void model__say_size(struct model_result r) {
    printf("%" PRIu64 " executions of up to %" PRIu64 " steps\n", r.executions, r.steps);
    fflush(stdout);
}

void model_passes(const struct model *m) {
    struct model_result r = model_explore(m);
    model__say_size(r);
    if (r.failure) FAIL("in execution %" PRIu64 ": %s", r.executions, r.failure);
    CHECK_GT(r.executions, 1);
}

void model_fails(const struct model *m, const char *text) {
    struct model_result r = model_explore(m);
    model__say_size(r);
    if (!r.failure || r.exceeded) FAIL("no execution fails");
    if (!strstr(r.failure, text)) FAIL("it does not fail by '%s' but: %s", text, r.failure);
}

/* ---- Every order in turn --------------------------------------------------------------------- */

static bool model__is_harmless(const struct model_harmless *h, const struct model_site *s,
                               const char *order) {
    return (strcmp(h->function, "*") == 0 || strcmp(h->function, s->function) == 0) &&
           strstr(s->text, h->operation) && strcmp(h->order, order) == 0;
}

/* Leaves out one order of one operation. False: whether a model fails is not as `harmless` says. */
static bool model__try_without(struct model_site *s, int bit, const struct model_harmless *harmless,
                               const struct model *const *models) {
    const char *order = model_order_names[bit], *why = NULL;
    for (; harmless->function; harmless++)
        if (model__is_harmless(harmless, s, order)) why = harmless->why;
    struct model_result r = {0};
    s->weak = 1u << bit;
    for (; *models && !r.failure; models++) {
        struct model m = **models;
        if (!m.stale) m.stale = 1;
        r = model_explore(&m);
    }
    s->weak = 0;
    bool caught = r.failure && !r.exceeded;
    printf("%s  without %s: %s:%d, %s: %s\n    %.*s\n", caught ? "caught" : "NOT CAUGHT", order,
           s->file, s->line, s->function, s->text, caught ? (int)strcspn(r.failure, "\n") : 300,
           r.failure ? r.failure
           : why     ? why
                     : "and nothing says why that is harmless");
    return caught ? !why : why && !r.exceeded;
}

void model_orders(const char *file, const struct model_harmless *harmless,
                  const struct model *const *models) {
    int wrong = 0, tried = 0;
    if (test_under_sanitizer()) SKIP("every order is tried where that is quick");
    for (int i = 0; models[i]; i++)
        model_passes(models[i]);
    /* Operations that are first reached while an order is missing are not tried. */
    for (struct model_site *s = model_sites, *end = NULL; s != end; s = s->next)
        for (int bit = 0; bit < 4; bit++)
            if (s->orders & 1u << bit && strstr(s->file, file)) {
                tried++;
                wrong += !model__try_without(s, bit, harmless, models);
            }
    if (!tried) FAIL("no operation in %s was reached", file);
    for (; harmless->function; harmless++) {
        bool met = false;
        for (const struct model_site *s = model_sites; s; s = s->next)
            for (int bit = 0; bit < 4; bit++)
                met |= s->orders & 1u << bit &&
                       model__is_harmless(harmless, s, model_order_names[bit]);
        if (!met) {
            printf("not met: %s of %s in %s\n", harmless->order, harmless->operation,
                   harmless->function);
            wrong++;
        }
    }
    if (wrong) FAIL("%d orders: see above", wrong);
}

/* ---- Plain accesses -------------------------------------------------------------------------- */

#if defined(MODEL_SEES_PLAIN)

#define MODEL__HOOK_SIZED(name, size, access)                                                      \
    MODEL__UNSEEN void __tsan_##name(void *p);                                                     \
    MODEL__UNSEEN void __tsan_##name(void *p) {                                                    \
        model__touch_plainly(p, size, access, __builtin_return_address(0));                        \
    }
#define MODEL__HOOK(size)                                                                          \
    MODEL__HOOK_SIZED(read##size, size, MODEL__PLAIN_READ)                                         \
    MODEL__HOOK_SIZED(write##size, size, MODEL__PLAIN_WRITE)                                       \
    MODEL__HOOK_SIZED(unaligned_read##size, size, MODEL__PLAIN_READ)                               \
    MODEL__HOOK_SIZED(unaligned_write##size, size, MODEL__PLAIN_WRITE)                             \
    MODEL__HOOK_SIZED(volatile_read##size, size, MODEL__PLAIN_READ)                                \
    MODEL__HOOK_SIZED(volatile_write##size, size, MODEL__PLAIN_WRITE)

MODEL__HOOK(1)
MODEL__HOOK(2)
MODEL__HOOK(4)
MODEL__HOOK(8)
MODEL__HOOK(16)

MODEL__UNSEEN void __tsan_read_range(void *p, long size) {
    model__touch_plainly(p, (size_t)size, MODEL__PLAIN_READ, __builtin_return_address(0));
}
MODEL__UNSEEN void __tsan_write_range(void *p, long size) {
    model__touch_plainly(p, (size_t)size, MODEL__PLAIN_WRITE, __builtin_return_address(0));
}
MODEL__UNSEEN void __tsan_init(void) {}
MODEL__UNSEEN void __tsan_func_entry(void *caller) {
    (void)caller;
}
MODEL__UNSEEN void __tsan_func_exit(void *unused) {
    (void)unused;
}

/* Called by fiber/annotate.h. */
MODEL__UNSEEN void *__tsan_get_current_fiber(void) {
    return NULL;
}
MODEL__UNSEEN void *__tsan_create_fiber(unsigned flags) {
    (void)flags;
    return NULL;
}
MODEL__UNSEEN void __tsan_destroy_fiber(void *fiber) {
    (void)fiber;
}
MODEL__UNSEEN void __tsan_switch_to_fiber(void *fiber, unsigned flags) {
    (void)fiber, (void)flags;
}

#endif
