/* SPDX-License-Identifier: MIT
 *
 * Empty messages and datagrams: a read returns 0, and what follows can still be read. */
#include "support/net.h"

ALL_ON_THIS_THREAD("each test chooses its own runtime");

ON_DRIVERS(an_empty_message_is_read_as_nothing_and_is_not_the_end) {
    static const int kinds[] = {SOCK_SEQPACKET, SOCK_DGRAM};
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < 2; i++) {
        aw_conn *ends[2];
        char to[4];
        CHECK_EQ(aw_unix_pair(ends, kinds[i]), 0);
        for (int k = 0; k < 2; k++) {
            CHECK_EQ(send(aw_conn_fd(ends[0]), "", 0, 0), 0);
            CHECK_EQ(send(aw_conn_fd(ends[0]), "abc", 3, 0), 3);
        }
        CHECK_EQ(aw_block_on(rt, aw_read(ends[1], to, sizeof to)), 0);
        CHECK_EQ(aw_block_on(rt, aw_read(ends[1], to, sizeof to)), 3);
        CHECK_EQ(aw_block_on(rt, aw_recv_from(ends[1], to, sizeof to, NULL, NULL)), 0);
        CHECK_EQ(aw_block_on(rt, aw_recv_from(ends[1], to, sizeof to, NULL, NULL)), 3);
        aw_close(ends[0]);
        aw_close(ends[1]);
    }
    workers_end(rt, &m);
}

ON_EACH_DRIVER(an_address_of_a_missing_interface_is_refused) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr found[1];
    CHECK_EQ(aw_block_on(rt, aw_resolve(found, 1, "fe80::1%nope", 80)), -ENODEV);
    aw_runtime_free(rt);
}
