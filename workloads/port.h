/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * port.h - the few names a workload needs from its surroundings, in user space
 * and in the kernel: fixed-width integers, size_t, memcpy and memset.
 */
#ifndef WORKLOADS_PORT_H
#define WORKLOADS_PORT_H

#ifdef __KERNEL__
#include <linux/string.h>
#include <linux/types.h>
#else
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#endif

#endif
