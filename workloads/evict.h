/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * evict.h - push everything else out of the data caches.
 */
#ifndef WORKLOADS_EVICT_H
#define WORKLOADS_EVICT_H

#include "port.h"

#define EVICT_LINE 64

/*
 * Walk a buffer larger than the cache in question; nothing if `size` is 0.
 *
 * Writes every line, so that what it leaves behind is dirty: the next task has
 * to pay for writing it back, as after a switch in study 002. A page has its own
 * entry in the TLB, so a walk of 8 MiB replaces those as well. Rejected: flush
 * instructions, which leave the caches empty and not someone else's (and which
 * neither the kernel's modules nor user space have on every architecture).
 */
static inline void evict(uint8_t *buffer, size_t size)
{
	size_t i;

	for (i = 0; i < size; i += EVICT_LINE) {
		buffer[i]++;
		__asm__ volatile("" : : : "memory");
	}
}

#endif
