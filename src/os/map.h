/* SPDX-License-Identifier: MIT
 *
 * Anonymous mappings: address space that takes no memory until it is accessed, with guard ranges in
 * which every access faults. Any thread. */
#ifndef AW_OS_MAP_H
#define AW_OS_MAP_H

#include <stdbool.h>
#include <stddef.h>

size_t aw__page_size(void);

/* NULL if there is no memory. `size` must be a multiple of the page size. */
void *aw__map(size_t size);
void aw__unmap(void *memory, size_t size);

/* Releases the memory but keeps the address range: the next access reads zeros. Guards stay. */
void aw__map_clear(void *memory, size_t size);

/* From now on every access to this range raises SIGSEGV. False: the kernel refuses. Since Linux
 * 6.13 a guard is a marker in the page table. On older kernels it is a separate mapping: each guard
 * then takes two of the mappings that a process may have, by default 65,530 (vm.max_map_count). */
bool aw__map_guard(void *memory, size_t size);

#endif
