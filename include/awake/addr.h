/* SPDX-License-Identifier: MIT
 *
 * awake/addr.h: socket addresses, as values.
 *
 *     aw_addr a;
 *     int error = aw_addr_parse(&a, "[::1]:8080");       -EINVAL: not an address
 *     char text[AW_ADDR_TEXT];
 *     aw_addr_print(&a, text, sizeof text);
 *
 * As text: "127.0.0.1:80", "[::1]:80", "[fe80::1%eth0]:80", "unix:/run/a.sock", "unix:@abstract".
 * Nothing here waits, allocates or asks a server; for names see awake/resolve.h. Any thread. */
#ifndef AWAKE_ADDR_H
#define AWAKE_ADDR_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <awake/config.h>

AW_C_BEGIN

/* All zero: no address. Copy by assignment, compare with aw_addr_equal. */
typedef struct aw_addr {
    socklen_t size; /* of the contents of `u`, as connect(2) wants it */
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } u;
} aw_addr;

/* Buffer size that fits every address as text. */
#define AW_ADDR_TEXT 448

/* ---- Text ------------------------------------------------------------------------------------ */

/* The whole text must be an address. 0, or a negative errno and `a` is unchanged: -EINVAL;
 * -ENAMETOOLONG: Unix path or abstract name; -ENODEV: no interface of the name after '%'. A port is
 * 0 to 65535, without leading zeros. In Unix addresses \xNN is a byte. */
AW_API int aw_addr_parse(aw_addr *a, const char *text);
/* An IPv4 or IPv6 address alone, without brackets, and a port: "::1", 80. */
AW_API int aw_addr_of_ip(aw_addr *a, const char *ip, uint16_t port);
/* Returns the length, like snprintf. Parsing the text gives the same address, except for addresses
 * without a name ("none", "unix:", "unix:@"). A scope is printed as a number. */
AW_API int aw_addr_print(const aw_addr *a, char *buf, size_t size);

/* ---- Construction ---------------------------------------------------------------------------- */

/* This machine (127.0.0.1, ::1), or all its interfaces (0.0.0.0, ::). AF_INET or AF_INET6; another
 * family gives no address (all zero), which other calls refuse with -EINVAL. */
AW_API aw_addr aw_addr_loopback(int family, uint16_t port);
AW_API aw_addr aw_addr_any(int family, uint16_t port);
/* A path of at most 108 bytes (then sun_path has no terminating zero), or an abstract name of at
 * most 107 bytes, of any value, without the '@'. -EINVAL, -ENAMETOOLONG. */
AW_API int aw_addr_of_path(aw_addr *a, const char *path);
AW_API int aw_addr_of_abstract(aw_addr *a, const void *name, size_t size);

/* From an address of the kernel. -EAFNOSUPPORT: another family; -EINVAL: wrong size for its
 * family. */
AW_API int aw_addr_of_sockaddr(aw_addr *a, const struct sockaddr *sa, socklen_t size);
/* For system calls: `size` bytes, inside `a`. */
static inline const struct sockaddr *aw_addr_sockaddr(const aw_addr *a, socklen_t *size) {
    *size = a->size;
    return &a->u.any;
}

/* ---- Inspection ------------------------------------------------------------------------------ */

/* AF_INET, AF_INET6, AF_UNIX; AF_UNSPEC for no address. */
static inline int aw_addr_family(const aw_addr *a) {
    return a->size ? a->u.any.sa_family : AF_UNSPEC;
}
/* 0 if it has none. */
AW_API uint16_t aw_addr_port(const aw_addr *a);
/* 0, or -EINVAL if it can have none. */
AW_API int aw_addr_set_port(aw_addr *a, uint16_t port);
/* Same family, address, port and scope. */
AW_API bool aw_addr_equal(const aw_addr *a, const aw_addr *b);
/* Turn an IPv4-mapped IPv6 address (::ffff:127.0.0.1) into IPv4. Listeners for both families see
 * such peers. */
AW_API void aw_addr_unmap(aw_addr *a);

AW_C_END

#endif
