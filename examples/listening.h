/* SPDX-License-Identifier: MIT
 *
 * Where to listen, from the command line: used by the servers 81 to 86.
 *
 *     "7000"               a port of 127.0.0.1; "0": any that is free
 *     "[::1]:7000"         what aw_addr_parse takes
 *     "unix:/run/it" */
#ifndef LISTENING_H
#define LISTENING_H

#include <awake.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int address_of(aw_addr *addr, const char *text) {
    if (strspn(text, "0123456789") != strlen(text)) return aw_addr_parse(addr, text);
    return aw_addr_of_ip(addr, "127.0.0.1", (uint16_t)atoi(text));
}

/* Listens, and tells where: through `addr` as well, if that is wanted. */
static inline int listen_at(aw_listener **listener, const char *text,
                            const aw_listen_options *options, aw_addr *addr) {
    aw_addr at;
    aw_listen_options chosen = AW_LISTEN_OPTIONS;
    int error = address_of(&at, text);
    if (options) chosen = *options;
    /* The path of a server that was killed stays: it is taken over. */
    if (!error) chosen.replace_stale = aw_addr_family(&at) == AF_UNIX;
    if (!error) error = aw_listen(listener, &at, &chosen);
    if (!error) error = aw_listener_addr(*listener, &at);
    if (error) {
        fprintf(stderr, "cannot listen at %s: %s\n", text, strerror(-error));
        return error;
    }
    if (addr) {
        *addr = at;
        return 0;
    }
    char name[AW_ADDR_TEXT];
    aw_addr_print(&at, name, sizeof name);
    printf("listening at %s\n", name);
    fflush(stdout); /* who has started us through a pipe waits for it */
    return 0;
}

#endif
