/* SPDX-License-Identifier: MIT
 *
 * Addresses: which texts are addresses and which are not, and that printing reverses parsing. */
#include <awake/addr.h>

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "test.h"

#define FULL    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
#define TEN     "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static const struct good {
    const char *text, *printed; /* NULL: the same */
    int family, port;
} good[] = {
    {"127.0.0.1:80", NULL, AF_INET, 80},
    {"0.0.0.0:0", NULL, AF_INET, 0},
    {"255.255.255.255:65535", NULL, AF_INET, 65535},
    {"[::1]:80", NULL, AF_INET6, 80},
    {"[::]:0", NULL, AF_INET6, 0},
    {"[0:0:0:0:0:0:0:1]:1", "[::1]:1", AF_INET6, 1},
    {"[2001:DB8::A]:443", "[2001:db8::a]:443", AF_INET6, 443},
    {"[" FULL "]:65535", NULL, AF_INET6, 65535},
    {"[::ffff:1.2.3.4]:5", NULL, AF_INET6, 5},
    {"[fe80::1%1]:80", NULL, AF_INET6, 80},
    {"[fe80::1%4294967295]:80", NULL, AF_INET6, 80},
    {"[" FULL "%4294967295]:65535", NULL, AF_INET6, 65535},
    {"unix:/run/a.sock", NULL, AF_UNIX, 0},
    {"unix:relative", NULL, AF_UNIX, 0},
    {"unix:/a b:c[d]%e", NULL, AF_UNIX, 0},
    {"unix:@name", NULL, AF_UNIX, 0},
    {"unix:@@", NULL, AF_UNIX, 0},
    {"unix:@a\\x00b", NULL, AF_UNIX, 0},
    {"unix:@\\x00", NULL, AF_UNIX, 0},
    {"unix:\\x40file", NULL, AF_UNIX, 0},
    {"unix:/a\\x5cb", NULL, AF_UNIX, 0},
    {"unix:/a\\x0Ab\\x7f", "unix:/a\\x0ab\\x7f", AF_UNIX, 0},
    {"unix:/\\x61", "unix:/a", AF_UNIX, 0},
    {"unix:/" HUNDRED "123456", NULL, AF_UNIX, 0},  /* 107 bytes */
    {"unix:/" HUNDRED "1234567", NULL, AF_UNIX, 0}, /* without a terminating zero */
    {"unix:@" HUNDRED "1234567", NULL, AF_UNIX, 0}, /* with a leading zero */
};

TEST(what_is_an_address_is_parsed_and_printed) {
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const struct good *g = &good[i];
        aw_addr a, again;
        char text[AW_ADDR_TEXT];
        int error = aw_addr_parse(&a, g->text);
        if (error) FAIL("%s: %d", g->text, error);
        CHECK_EQ(aw_addr_family(&a), g->family);
        CHECK_EQ(aw_addr_port(&a), g->port);
        CHECK_EQ(aw_addr_print(&a, text, sizeof text), strlen(text));
        CHECK_STR(text, g->printed ? g->printed : g->text);
        CHECK_EQ(aw_addr_parse(&again, text), 0);
        CHECK(aw_addr_equal(&a, &again));
        CHECK_EQ(again.size, a.size);
        socklen_t size;
        const struct sockaddr *sa = aw_addr_sockaddr(&a, &size);
        CHECK_EQ(aw_addr_of_sockaddr(&again, sa, size), 0);
        CHECK(aw_addr_equal(&a, &again));
        CHECK_EQ(again.size, a.size);
    }
}

TEST(no_two_of_them_are_equal) {
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
            aw_addr a, b;
            CHECK_EQ(aw_addr_parse(&a, good[i].text), 0);
            CHECK_EQ(aw_addr_parse(&b, good[k].text), 0);
            CHECK_EQ(aw_addr_equal(&a, &b), i == k);
        }
}

static const struct bad {
    const char *text;
    int error;
} bad[] = {
    {"", -EINVAL},
    {"127.0.0.1", -EINVAL},
    {"127.0.0.1:", -EINVAL},
    {"127.0.0.1:65536", -EINVAL},
    {"127.0.0.1:99999999999999999999", -EINVAL},
    {"127.0.0.1:080", -EINVAL},
    {"127.0.0.1:00", -EINVAL},
    {"127.0.0.1:-1", -EINVAL},
    {"127.0.0.1:+1", -EINVAL},
    {"127.0.0.1: 80", -EINVAL},
    {"127.0.0.1:80 ", -EINVAL},
    {" 127.0.0.1:80", -EINVAL},
    {"127.0.0.1:80:80", -EINVAL},
    {"127.0.0.1:0x50", -EINVAL},
    {"127.0.0.1:http", -EINVAL},
    {"127.0.0.01:80", -EINVAL},
    {"127.0.0.256:80", -EINVAL},
    {"127.0.0:80", -EINVAL},
    {"127.1:80", -EINVAL},
    {"1.2.3.4.5:80", -EINVAL},
    {"0x7f.0.0.1:80", -EINVAL},
    {"2130706433:80", -EINVAL},
    {":80", -EINVAL},
    {"localhost:80", -EINVAL},
    {"[127.0.0.1]:80", -EINVAL},
    {"::1:80", -EINVAL},
    {"::1", -EINVAL},
    {"[::1]", -EINVAL},
    {"[::1]80", -EINVAL},
    {"[::1]:", -EINVAL},
    {"[::1:80", -EINVAL},
    {"[]:80", -EINVAL},
    {"[", -EINVAL},
    {"[:::1]:80", -EINVAL},
    {"[1:2:3:4:5:6:7]:80", -EINVAL},
    {"[1:2:3:4:5:6:7:8:9]:80", -EINVAL},
    {"[12345::]:80", -EINVAL},
    {"[::g]:80", -EINVAL},
    {"[::1]]:80", -EINVAL},
    {"[[::1]]:80", -EINVAL},
    {"[fe80::1%]:80", -EINVAL},
    {"[fe80::1%0]:80", -EINVAL},
    {"[fe80::1%01]:80", -ENODEV},
    {"[fe80::1%4294967296]:80", -ENODEV}, /* parsed as a name */
    {"[fe80::1%no-such-if]:80", -ENODEV},
    {"[fe80::1%a-name-that-is-too-long]:80", -EINVAL},
    {"[" FULL "%" HUNDRED "]:80", -EINVAL},
    {"1.2.3.4%1:80", -EINVAL},
    {"unix", -EINVAL},
    {"unix:", -EINVAL},
    {"unix:@", -EINVAL},
    {"Unix:/a", -EINVAL},
    {"unix:/a\\", -EINVAL},
    {"unix:/a\\x", -EINVAL},
    {"unix:/a\\x4", -EINVAL},
    {"unix:/a\\x4g", -EINVAL},
    {"unix:/a\\n", -EINVAL},
    {"unix:/a\\x00b", -EINVAL},
    {"unix:/" HUNDRED "12345678", -ENAMETOOLONG}, /* 109 bytes */
    {"unix:@" HUNDRED "12345678", -ENAMETOOLONG},
    {"unix:/" HUNDRED HUNDRED, -ENAMETOOLONG},
};

TEST(what_is_none_is_refused_and_leaves_what_was_there) {
    aw_addr before = aw_addr_loopback(AF_INET6, 1), a = before;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int error = aw_addr_parse(&a, bad[i].text);
        if (error != bad[i].error) FAIL("%s: %d", bad[i].text, error);
        CHECK_EQ(memcmp(&a, &before, sizeof a), 0);
    }
    CHECK_EQ(aw_addr_parse(&a, NULL), -EINVAL);
    CHECK_EQ(aw_addr_parse(NULL, "127.0.0.1:80"), -EINVAL);
}

/* Addresses that were truncated or changed: parsing never reads past the end (checked by ASan),
 * and an accepted one survives printing and parsing. */
TEST(damaged_addresses_are_refused_or_come_back) {
    uint64_t random = test_seed();
    for (int round = 0; round < test_scale(100000); round++) {
        char damaged[256], text[AW_ADDR_TEXT];
        const char *from = good[test_random(&random) % (sizeof good / sizeof *good)].text;
        size_t length = strlen(from);
        memcpy(damaged, from, length + 1);
        for (int n = (int)(test_random(&random) % 3); n >= 0; n--)
            damaged[test_random(&random) % length] =
                "0123456789abcxf:[]%@\\/."[test_random(&random) % 24];
        damaged[test_random(&random) % (length + 1)] = 0;
        aw_addr a, b;
        size_t size = strlen(damaged) + 1;
        char *exact = __builtin_malloc(size);
        memcpy(exact, damaged, size);
        int error = aw_addr_parse(&a, exact);
        __builtin_free(exact);
        if (error) continue;
        aw_addr_print(&a, text, sizeof text);
        if (aw_addr_parse(&b, text) || !aw_addr_equal(&a, &b)) FAIL("%s -> %s", damaged, text);
    }
}

TEST(a_scope_may_be_the_name_of_an_interface) {
    unsigned lo = if_nametoindex("lo");
    aw_addr a, b;
    char text[AW_ADDR_TEXT], number[64];
    if (!lo) SKIP("no interface lo");
    CHECK_EQ(aw_addr_parse(&a, "[fe80::1%lo]:80"), 0);
    CHECK_EQ(a.u.v6.sin6_scope_id, lo);
    aw_addr_print(&a, text, sizeof text);
    snprintf(number, sizeof number, "[fe80::1%%%u]:80", lo);
    CHECK_STR(text, number);
    CHECK_EQ(aw_addr_of_ip(&b, "fe80::1%lo", 80), 0);
    CHECK(aw_addr_equal(&a, &b));
    b.u.v6.sin6_scope_id++;
    CHECK(!aw_addr_equal(&a, &b));
}

TEST(a_small_buffer_is_told_how_long_it_would_be) {
    aw_addr a;
    char buf[8] = "xxxxxxx";
    CHECK_EQ(aw_addr_parse(&a, "127.0.0.1:8080"), 0);
    CHECK_EQ(aw_addr_print(&a, buf, sizeof buf), 14);
    CHECK_STR(buf, "127.0.0");
    CHECK_EQ(aw_addr_print(&a, NULL, 0), 14);
}

TEST(those_without_a_name_are_printed_all_the_same) {
    aw_addr a = {0}, b = {0};
    struct sockaddr_un unnamed = {.sun_family = AF_UNIX};
    char text[AW_ADDR_TEXT];
    CHECK_EQ(aw_addr_family(&a), AF_UNSPEC);
    CHECK_EQ(aw_addr_port(&a), 0);
    CHECK_EQ(aw_addr_set_port(&a, 1), -EINVAL);
    CHECK(aw_addr_equal(&a, &b));
    aw_addr_print(&a, text, sizeof text);
    CHECK_STR(text, "none");
    CHECK_EQ(aw_addr_of_sockaddr(&b, (struct sockaddr *)&unnamed, sizeof(sa_family_t)), 0);
    aw_addr_print(&b, text, sizeof text);
    CHECK_STR(text, "unix:");
    CHECK(!aw_addr_equal(&a, &b));
}

TEST(the_kernel_may_count_the_end_of_a_path_or_not) {
    struct sockaddr_un sun = {.sun_family = AF_UNIX, .sun_path = "/tmp/x"};
    socklen_t at = offsetof(struct sockaddr_un, sun_path);
    aw_addr a, b, c;
    CHECK_EQ(aw_addr_of_sockaddr(&a, (struct sockaddr *)&sun, at + 6), 0);
    CHECK_EQ(aw_addr_of_sockaddr(&b, (struct sockaddr *)&sun, at + 7), 0);
    CHECK_EQ(aw_addr_of_sockaddr(&c, (struct sockaddr *)&sun, sizeof sun), 0);
    CHECK(aw_addr_equal(&a, &b) && aw_addr_equal(&b, &c));
    CHECK_EQ(a.size, b.size);
    CHECK_EQ(c.size, b.size);
    memset(sun.sun_path, 'y', sizeof sun.sun_path); /* unterminated: Linux allows it */
    CHECK_EQ(aw_addr_of_sockaddr(&a, (struct sockaddr *)&sun, sizeof sun), 0);
    CHECK_EQ(a.size, sizeof sun);
    char text[AW_ADDR_TEXT];
    CHECK_EQ(aw_addr_print(&a, text, sizeof text), 5 + 108);
}

TEST(strange_addresses_from_the_kernel_are_refused) {
    struct sockaddr_storage any = {.ss_family = AF_INET};
    struct sockaddr *sa = (struct sockaddr *)&any;
    aw_addr a;
    CHECK_EQ(aw_addr_of_sockaddr(&a, sa, sizeof(struct sockaddr_in) - 1), -EINVAL);
    CHECK_EQ(aw_addr_of_sockaddr(&a, sa, 1), -EINVAL);
    CHECK_EQ(aw_addr_of_sockaddr(&a, sa, 0), -EINVAL);
    any.ss_family = AF_INET6;
    CHECK_EQ(aw_addr_of_sockaddr(&a, sa, sizeof(struct sockaddr_in)), -EINVAL);
    any.ss_family = AF_UNIX;
    CHECK_EQ(aw_addr_of_sockaddr(&a, sa, sizeof any), -EINVAL);
    any.ss_family = AF_NETLINK;
    CHECK_EQ(aw_addr_of_sockaddr(&a, sa, sizeof any), -EAFNOSUPPORT);
    CHECK_EQ(aw_addr_of_sockaddr(&a, NULL, 16), -EINVAL);
}

TEST(a_port_is_put_into_both_families) {
    aw_addr a = aw_addr_any(AF_INET, 1), b = aw_addr_any(AF_INET6, 1);
    CHECK_EQ(aw_addr_set_port(&a, 65535), 0);
    CHECK_EQ(aw_addr_set_port(&b, 513), 0);
    CHECK_EQ(a.u.v4.sin_port, htons(65535));
    CHECK_EQ(aw_addr_port(&a), 65535);
    CHECK_EQ(b.u.v6.sin6_port, htons(513));
    CHECK_EQ(aw_addr_port(&b), 513);
}

TEST(an_unknown_family_makes_no_address) {
    static const int families[] = {AF_UNSPEC, AF_UNIX, AF_NETLINK, 12345, -1};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        aw_addr none = {0}, loopback = aw_addr_loopback(families[i], 80),
                any = aw_addr_any(families[i], 80);
        CHECK_EQ(aw_addr_family(&loopback), AF_UNSPEC);
        CHECK_EQ(aw_addr_family(&any), AF_UNSPEC);
        CHECK_EQ(memcmp(&loopback, &none, sizeof none), 0);
        CHECK_EQ(memcmp(&any, &none, sizeof none), 0);
    }
}

TEST(a_mapped_address_becomes_ipv4) {
    aw_addr mapped, plain, six = aw_addr_loopback(AF_INET6, 7), same = six;
    CHECK_EQ(aw_addr_parse(&mapped, "[::ffff:127.0.0.1]:7"), 0);
    CHECK_EQ(aw_addr_parse(&plain, "127.0.0.1:7"), 0);
    CHECK(!aw_addr_equal(&mapped, &plain));
    aw_addr_unmap(&mapped);
    CHECK(aw_addr_equal(&mapped, &plain));
    aw_addr_unmap(&plain);
    CHECK(aw_addr_equal(&mapped, &plain));
    aw_addr_unmap(&six);
    CHECK(aw_addr_equal(&six, &same));
}

TEST(paths_and_names_are_taken_as_they_are) {
    aw_addr a, b;
    CHECK_EQ(aw_addr_of_path(&a, "@x"), 0); /* a file */
    CHECK_EQ(aw_addr_of_abstract(&b, "x", 1), 0);
    CHECK(!aw_addr_equal(&a, &b));
    CHECK_EQ(aw_addr_parse(&a, "unix:@x"), 0);
    CHECK(aw_addr_equal(&a, &b));
    CHECK_EQ(aw_addr_of_path(&a, ""), -EINVAL);
    CHECK_EQ(aw_addr_of_path(&a, NULL), -EINVAL);
    CHECK_EQ(aw_addr_of_path(&a, HUNDRED TEN), -ENAMETOOLONG);
    CHECK_EQ(aw_addr_of_abstract(&a, "x", 0), -EINVAL);
    CHECK_EQ(aw_addr_of_abstract(&a, HUNDRED TEN, 108), -ENAMETOOLONG);
}

/* Of any length, also those that the kernel returns unterminated. Unnamed addresses cannot be
 * parsed. */
TEST(what_is_printed_of_a_unix_address_is_the_same_address) {
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    size_t head = offsetof(struct sockaddr_un, sun_path), max = sizeof sun.sun_path;
    char text[AW_ADDR_TEXT];
    for (int abstract = 0; abstract < 2; abstract++) {
        memset(sun.sun_path, 'z', max);
        if (abstract) sun.sun_path[0] = 0;
        for (size_t size = 0; size <= max; size++) {
            aw_addr a, b;
            bool named = size > (size_t)abstract;
            CHECK_EQ(aw_addr_of_sockaddr(&a, (struct sockaddr *)&sun, (socklen_t)(head + size)), 0);
            aw_addr_print(&a, text, sizeof text);
            CHECK_EQ(aw_addr_parse(&b, text), named ? 0 : -EINVAL);
            if (named) CHECK(aw_addr_equal(&a, &b));
            if (named) CHECK_EQ(a.size, b.size);
        }
    }
}
