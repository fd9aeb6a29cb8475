/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * crc.h - CRC-32 as in Ethernet, zip and PNG.
 */
#ifndef WORKLOADS_CRC_H
#define WORKLOADS_CRC_H

#include "port.h"

/* Continue `crc` (0 at the start) over `n` bytes. */
uint32_t crc32_update(uint32_t crc, const void *data, size_t n);

/* 0, or -1 if the check value of "123456789" is not cbf43926. */
int crc_selftest(void);

#endif
