/* SPDX-License-Identifier: MIT
 *
 * Addresses. Parsing is strict: each address has one spelling, and nothing may follow it. */
#include <awake/addr.h>

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum {
    PATH_OFFSET = offsetof(struct sockaddr_un, sun_path),
    PATH_CAPACITY = sizeof(((struct sockaddr_un *)0)->sun_path)
};

/* ---- Numbers --------------------------------------------------------------------------------- */

static int digit(char c, unsigned base) {
    int d = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : -1;
    return d < (int)base ? d : -1;
}

/* The whole text, decimal, without leading zeros. */
static bool parse_decimal(const char *text, uint32_t max, uint32_t *value) {
    uint64_t n = 0;
    if (!*text || (*text == '0' && text[1])) return false;
    for (; *text; text++) {
        int d = digit(*text, 10);
        if (d < 0) return false;
        n = n * 10 + (uint64_t)d;
        if (n > max) return false;
    }
    *value = (uint32_t)n;
    return true;
}

/* ---- IPv4 and IPv6 --------------------------------------------------------------------------- */

static aw_addr v4_of(struct in_addr ip, uint16_t port) {
    aw_addr a = {.size = sizeof a.u.v4};
    a.u.v4.sin_family = AF_INET;
    a.u.v4.sin_port = htons(port);
    a.u.v4.sin_addr = ip;
    return a;
}

static aw_addr v6_of(struct in6_addr ip, uint16_t port, uint32_t scope) {
    aw_addr a = {.size = sizeof a.u.v6};
    a.u.v6.sin6_family = AF_INET6;
    a.u.v6.sin6_port = htons(port);
    a.u.v6.sin6_addr = ip;
    a.u.v6.sin6_scope_id = scope;
    return a;
}

static int scope_of(const char *text, uint32_t *scope) {
    if (parse_decimal(text, UINT32_MAX, scope)) return *scope ? 0 : -EINVAL;
    if (!*text || strlen(text) >= IF_NAMESIZE) return -EINVAL;
    *scope = if_nametoindex(text);
    return *scope ? 0 : -ENODEV;
}

int aw_addr_of_ip(aw_addr *a, const char *ip, uint16_t port) {
    struct in_addr four;
    struct in6_addr six;
    char text[INET6_ADDRSTRLEN];
    uint32_t scope = 0;
    if (!a || !ip) return -EINVAL;
    if (inet_pton(AF_INET, ip, &four) == 1) {
        *a = v4_of(four, port);
        return 0;
    }
    size_t length = strcspn(ip, "%");
    if (length >= sizeof text) return -EINVAL;
    memcpy(text, ip, length);
    text[length] = 0;
    if (inet_pton(AF_INET6, text, &six) != 1) return -EINVAL;
    int error = ip[length] ? scope_of(ip + length + 1, &scope) : 0;
    if (error) return error;
    *a = v6_of(six, port, scope);
    return 0;
}

static int parse_inet(aw_addr *a, const char *text) {
    char ip[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
    bool six = *text == '[';
    const char *end = strchr(text, six ? ']' : ':');
    uint32_t port;
    text += six;
    if (!end || (size_t)(end - text) >= sizeof ip) return -EINVAL;
    memcpy(ip, text, (size_t)(end - text));
    ip[end - text] = 0;
    if (six && *++end != ':') return -EINVAL;
    if (!parse_decimal(end + 1, UINT16_MAX, &port)) return -EINVAL;
    if (six != (strchr(ip, ':') != NULL)) return -EINVAL;
    return aw_addr_of_ip(a, ip, (uint16_t)port);
}

static aw_addr inet_of(int family, uint32_t four, struct in6_addr six, uint16_t port) {
    switch (family) {
    case AF_INET: return v4_of((struct in_addr){htonl(four)}, port);
    case AF_INET6: return v6_of(six, port, 0);
    default: return (aw_addr){0};
    }
}

aw_addr aw_addr_loopback(int family, uint16_t port) {
    return inet_of(family, INADDR_LOOPBACK, in6addr_loopback, port);
}

aw_addr aw_addr_any(int family, uint16_t port) {
    return inet_of(family, INADDR_ANY, in6addr_any, port);
}

/* ---- Unix ------------------------------------------------------------------------------------ */

/* A path is stored with its NUL if there is space; Linux does not need it. An abstract name follows
 * a NUL. */
static int local_of(aw_addr *a, const char *name, size_t size, bool abstract) {
    if (size + abstract > PATH_CAPACITY) return -ENAMETOOLONG;
    size_t stored = size < PATH_CAPACITY ? size + 1 : size;
    *a = (aw_addr){.size = (socklen_t)(PATH_OFFSET + stored)};
    a->u.local.sun_family = AF_UNIX;
    memcpy(a->u.local.sun_path + abstract, name, size);
    return 0;
}

int aw_addr_of_path(aw_addr *a, const char *path) {
    return a && path && *path ? local_of(a, path, strlen(path), false) : -EINVAL;
}

int aw_addr_of_abstract(aw_addr *a, const void *name, size_t size) {
    return a && name && size ? local_of(a, name, size, true) : -EINVAL;
}

static int parse_local(aw_addr *a, const char *text) {
    char name[PATH_CAPACITY];
    size_t size = 0;
    bool abstract = *text == '@';
    for (text += abstract; *text; size++) {
        if (size == sizeof name) return -ENAMETOOLONG;
        name[size] = *text++;
        if (name[size] != '\\') continue;
        int high = *text == 'x' ? digit(text[1], 16) : -1;
        int low = high < 0 ? -1 : digit(text[2], 16);
        if (low < 0) return -EINVAL;
        name[size] = (char)(high << 4 | low);
        if (!name[size] && !abstract) return -EINVAL;
        text += 3;
    }
    /* A path that begins with '@' is written with \x40. */
    return size ? local_of(a, name, size, abstract) : -EINVAL;
}

/* Finds the name in sun_path, without its NUL, and returns its size. */
static size_t local_name(const aw_addr *a, const char **name, bool *abstract) {
    size_t size = a->size - PATH_OFFSET;
    *name = a->u.local.sun_path;
    *abstract = size && !**name;
    if (!*abstract) return strnlen(*name, size);
    ++*name;
    return size - 1;
}

/* ---- Text ------------------------------------------------------------------------------------ */

int aw_addr_parse(aw_addr *a, const char *text) {
    if (!a || !text) return -EINVAL;
    return strncmp(text, "unix:", 5) == 0 ? parse_local(a, text + 5) : parse_inet(a, text);
}

static void print_local(aw__text *t, const aw_addr *a) {
    const char *name;
    bool abstract;
    size_t size = local_name(a, &name, &abstract);
    aw__text_add(t, abstract ? "unix:@" : "unix:");
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)name[i];
        bool odd = c < ' ' || c == 127 || c == '\\' || (c == '@' && i == 0 && !abstract);
        aw__text_add(t, odd ? "\\x%02x" : "%c", c);
    }
}

int aw_addr_print(const aw_addr *a, char *buf, size_t size) {
    aw__text t = {buf, size, 0};
    char ip[INET6_ADDRSTRLEN];
    if (size) *buf = 0;
    switch (aw_addr_family(a)) {
    case AF_INET:
        inet_ntop(AF_INET, &a->u.v4.sin_addr, ip, sizeof ip);
        aw__text_add(&t, "%s:%u", ip, aw_addr_port(a));
        break;
    case AF_INET6:
        inet_ntop(AF_INET6, &a->u.v6.sin6_addr, ip, sizeof ip);
        aw__text_add(&t, "[%s", ip);
        if (a->u.v6.sin6_scope_id) aw__text_add(&t, "%%%u", a->u.v6.sin6_scope_id);
        aw__text_add(&t, "]:%u", aw_addr_port(a));
        break;
    case AF_UNIX: print_local(&t, a); break;
    default: aw__text_add(&t, "none");
    }
    return (int)t.length;
}

/* ---- From the kernel ------------------------------------------------------------------------- */

static int local_of_sockaddr(aw_addr *a, const struct sockaddr_un *sun, size_t size) {
    /* A path that fills sun_path: the kernel counts a NUL that is not there. */
    if (size == sizeof *sun + 1) size--;
    if (size > sizeof *sun) return -EINVAL;
    size_t length = size - PATH_OFFSET;
    if (length && sun->sun_path[0]) {
        length = strnlen(sun->sun_path, length); /* the size may include the NUL or not */
        if (length < PATH_CAPACITY) length++;
    }
    *a = (aw_addr){.size = (socklen_t)(PATH_OFFSET + length)};
    a->u.local.sun_family = AF_UNIX;
    size_t available = size - PATH_OFFSET;
    memcpy(a->u.local.sun_path, sun->sun_path, length < available ? length : available);
    return 0;
}

int aw_addr_of_sockaddr(aw_addr *a, const struct sockaddr *sa, socklen_t size) {
    if (!a || !sa || size < PATH_OFFSET) return -EINVAL;
    sa_family_t family;
    memcpy(&family, &sa->sa_family, sizeof family);
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    switch (family) {
    case AF_INET:
        if (size < sizeof four) return -EINVAL;
        memcpy(&four, sa, sizeof four);
        *a = v4_of(four.sin_addr, ntohs(four.sin_port));
        return 0;
    case AF_INET6:
        if (size < sizeof six) return -EINVAL;
        memcpy(&six, sa, sizeof six);
        *a = v6_of(six.sin6_addr, ntohs(six.sin6_port), six.sin6_scope_id);
        a->u.v6.sin6_flowinfo = six.sin6_flowinfo;
        return 0;
    case AF_UNIX: return local_of_sockaddr(a, (const struct sockaddr_un *)(const void *)sa, size);
    default: return -EAFNOSUPPORT;
    }
}

/* ---- Ports and comparison -------------------------------------------------------------------- */

uint16_t aw_addr_port(const aw_addr *a) {
    switch (aw_addr_family(a)) {
    case AF_INET: return ntohs(a->u.v4.sin_port);
    case AF_INET6: return ntohs(a->u.v6.sin6_port);
    default: return 0;
    }
}

int aw_addr_set_port(aw_addr *a, uint16_t port) {
    switch (aw_addr_family(a)) {
    case AF_INET: a->u.v4.sin_port = htons(port); return 0;
    case AF_INET6: a->u.v6.sin6_port = htons(port); return 0;
    default: return -EINVAL;
    }
}

static bool local_equal(const aw_addr *a, const aw_addr *b) {
    const char *name[2];
    bool abstract[2];
    size_t size = local_name(a, &name[0], &abstract[0]);
    return local_name(b, &name[1], &abstract[1]) == size && abstract[0] == abstract[1] &&
           memcmp(name[0], name[1], size) == 0;
}

bool aw_addr_equal(const aw_addr *a, const aw_addr *b) {
    if (aw_addr_family(a) != aw_addr_family(b) || aw_addr_port(a) != aw_addr_port(b)) return false;
    switch (aw_addr_family(a)) {
    case AF_INET: return a->u.v4.sin_addr.s_addr == b->u.v4.sin_addr.s_addr;
    case AF_INET6:
        return memcmp(&a->u.v6.sin6_addr, &b->u.v6.sin6_addr, sizeof(struct in6_addr)) == 0 &&
               a->u.v6.sin6_scope_id == b->u.v6.sin6_scope_id;
    case AF_UNIX: return local_equal(a, b);
    default: return true;
    }
}

void aw_addr_unmap(aw_addr *a) {
    struct in_addr four;
    if (aw_addr_family(a) != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->u.v6.sin6_addr)) return;
    memcpy(&four, a->u.v6.sin6_addr.s6_addr + 12, sizeof four);
    *a = v4_of(four, aw_addr_port(a));
}
