/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * evict.h - push everything else out of the caches, of data and of code.
 */
#ifndef WORKLOADS_EVICT_H
#define WORKLOADS_EVICT_H

#include "port.h"

#define EVICT_LINE 64
/* More than any L1i there is, and than any first-level TLB of code covers. */
#define EVICT_CODE_LINES 8192

/*
 * Walk a buffer larger than the last cache, and then code larger than the first;
 * nothing if `size` is 0.
 *
 * Writes every line of the buffer, so that what it leaves behind is dirty: the next
 * task has to pay for writing it back, as after a switch in study 002. A page has its
 * own entry in the TLB, so a walk of 8 MiB replaces those as well. Rejected: flush
 * instructions, which leave the caches empty and not someone else's (and which
 * neither the kernel's modules nor user space have on every architecture).
 */
void evict(uint8_t *buffer, size_t size);

#endif
