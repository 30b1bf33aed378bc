/* SPDX-License-Identifier: MIT
 *
 * Addresses and timeouts from the command line, for the servers 81 to 86. An address is one of
 *
 *     "7000"               that port of 127.0.0.1; "0" picks a free port
 *     "[::1]:7000"         or any other text that aw_addr_parse accepts
 *     "unix:/run/it" */
#ifndef LISTENING_H
#define LISTENING_H

#include <awake.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int parse_address(aw_addr *addr, const char *text) {
    if (strspn(text, "0123456789") != strlen(text)) return aw_addr_parse(addr, text);
    return aw_addr_of_ip(addr, "127.0.0.1", (uint16_t)atoi(text));
}

/* The time limit for a peer, in seconds. Without an argument, 30 seconds. */
static inline uint64_t parse_timeout(const char *seconds) {
    return seconds ? (uint64_t)(atof(seconds) * (double)AW_SEC(1)) : AW_SEC(30);
}

/* Listens. Stores the address in *addr, or prints it if `addr` is NULL. 0 or a negative errno. */
static inline int listen_at(aw_listener **listener, const char *text,
                            const aw_listen_options *options, aw_addr *addr) {
    aw_addr at;
    aw_listen_options chosen = AW_LISTEN_OPTIONS;
    int error = parse_address(&at, text);
    if (options) chosen = *options;
    /* A killed server leaves its Unix path behind: replace it. */
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
    fflush(stdout); /* a parent process may wait for this line */
    return 0;
}

#endif
