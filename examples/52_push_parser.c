/* SPDX-License-Identifier: MIT
 *
 * A parser that calls back, and callbacks that wait.
 *
 * Many libraries work like this one: the program pushes bytes as they arrive, in pieces of any
 * size, and the library calls back for each complete element. If elements are stored somewhere
 * slow, there is a problem: a callback cannot return "later". The usual solution is a queue behind
 * the callback, and backpressure on the loop that pushes.
 *
 * In a fiber the callback waits. The parser waits with it, and so does the loop that pushes.
 *
 * Notice that the parser is plain C and contains no await, and that a piece is fetched only after
 * all elements of the previous one are stored. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

/* ---- The library: elements <name>text</name>, split anywhere --------------------------------- */

struct parser {
    void (*on_element)(void *user, const char *name, const char *text);
    void *user;
    enum { OUTSIDE, IN_NAME, IN_TEXT, IN_END } state;
    size_t length;
    char name[16], text[32];
};

static void append(struct parser *p, char *to, size_t size, char c) {
    if (p->length + 1 < size) to[p->length++] = c;
    to[p->length] = 0;
}

static void parser_push(struct parser *p, const char *bytes, size_t count) {
    for (const char *c = bytes; c < bytes + count; c++) {
        switch (p->state) {
        case OUTSIDE:
            if (*c == '<') p->state = IN_NAME, p->length = 0;
            break;
        case IN_NAME:
            if (*c != '>')
                append(p, p->name, sizeof p->name, *c);
            else
                p->state = IN_TEXT, p->length = 0, p->text[0] = 0;
            break;
        case IN_TEXT:
            if (*c != '<')
                append(p, p->text, sizeof p->text, *c);
            else
                p->state = IN_END;
            break;
        case IN_END:
            if (*c != '>') break;
            p->state = OUTSIDE;
            p->on_element(p->user, p->name, p->text);
            break;
        }
    }
}

/* ---- The program ----------------------------------------------------------------------------- */

struct shop {
    int stored;
    int error; /* the first error; nothing is stored after it */
};

static void store(void *user, const char *name, const char *text) {
    struct shop *shop = user;
    if (shop->error) return;
    printf("  store %s '%s' ...\n", name, text);
    shop->error = aw_await(aw_sleep_for(AW_MSEC(10))); /* a slow database */
    if (shop->error) return;
    printf("  stored %s\n", name);
    shop->stored++;
}

AW_FIBER(int, import) {
    static const char *const pieces[] = {
        "<drink>tea</drink><fo",
        "od>scones</food> <drink>cof",
        "fee</drink><price>3",
        ".50</price>",
    };
    struct shop shop = {0};
    struct parser parser = {.on_element = store, .user = &shop};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0] && !shop.error; i++) {
        int error = aw_await(aw_sleep_for(AW_MSEC(1))); /* a slow network */
        if (error) return error;
        printf("push \"%s\"\n", pieces[i]);
        parser_push(&parser, pieces[i], strlen(pieces[i]));
    }
    return shop.error ? shop.error : shop.stored;
}

int main(void) {
    printf("%d elements\n", aw_run(AW_CALL(import)));
    return 0;
}
