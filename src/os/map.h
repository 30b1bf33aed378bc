/* SPDX-License-Identifier: MIT
 *
 * Memory by the page: address space that costs nothing until it is touched, with parts that must not
 * be touched. */
#ifndef AW_OS_MAP_H
#define AW_OS_MAP_H

#include <stdbool.h>
#include <stddef.h>

size_t aw__page_size(void);

/* NULL when there is none. The size is a multiple of the page size. */
void *aw__map(size_t size);
void aw__unmap(void *memory, size_t size);

/* Give the memory back and keep the addresses: the next touch finds zeros. Guards stay. */
void aw__map_clear(void *memory, size_t size);

/* Any access to this range from now on is a SIGSEGV. False: the kernel refuses. Since Linux 6.13 a
 * guard is a mark in the page table. Before that it is a mapping of its own, of which a process has only
 * some 65,000 (vm.max_map_count), each guard taking two. */
bool aw__map_guard(void *memory, size_t size);

#endif
