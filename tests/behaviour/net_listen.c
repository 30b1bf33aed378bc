/* SPDX-License-Identifier: MIT
 *
 * Making listeners: what their options say holds for each of them, and one that cannot be made leaves nothing. */
#include "support/net.h"

#include <stdlib.h>

ALL_ON_THIS_THREAD("nothing here runs tasks");

/* ---- Options ------------------------------------------------------------------------------------ */

/* Whether a connection of a listener gathers small writes. */
static bool delays(aw_listener *l) {
    aw_addr at;
    CHECK_EQ(aw_listener_addr(l, &at), 0);
    int client = plain_client(&at);
    struct pollfd comes = {aw_listener_fd(l), POLLIN, 0};
    CHECK_EQ(poll(&comes, 1, 10000), 1);
    int fd = accept(comes.fd, NULL, NULL);
    bool delay = !socket_option(fd, IPPROTO_TCP, TCP_NODELAY);
    close(fd);
    close(client);
    return delay;
}

TEST(connections_of_a_socket_that_was_taken_over_delay_as_it_is_said) {
    for (int i = 0; i < 4; i++) {
        bool before = i & 1, wanted = i & 2;
        aw_listener *l, *taken;
        aw_addr at;
        l = listen_here(AF_INET, AW_LISTEN(.delay = before), &at);
        CHECK_EQ(delays(l), before);
        int fd = dup(aw_listener_fd(l));
        aw_listener_close(l);
        int error = aw_listener_of_fd(&taken, fd, AW_LISTEN(.delay = wanted));
        CHECK_EQ(error, 0);
        CHECK_EQ(delays(taken), wanted);
        aw_listener_close(taken);
    }
}

/* As of a program that was built when there were fewer. */
TEST(several_listeners_share_a_port_with_few_options) {
    aw_listen_options few = {.self_size = sizeof few.self_size};
    aw_addr any_port = aw_addr_loopback(AF_INET, 0), at[2];
    aw_listener *ls[2];
    CHECK_EQ(aw_listen_each(ls, 2, &any_port, &few), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(aw_listener_addr(ls[i], &at[i]), 0);
    CHECK(aw_addr_equal(&at[0], &at[1]));
    for (int i = 0; i < 2; i++)
        aw_listener_close(ls[i]);
}
