/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * aes.h - AES-128 encryption, byte by byte. A workload, not a cipher to use:
 * its table look-ups leak the key through the cache.
 */
#ifndef WORKLOADS_AES_H
#define WORKLOADS_AES_H

#include "port.h"

#define AES_BLOCK 16

struct aes128 {
	uint8_t round_key[11][AES_BLOCK];
};

void aes128_expand(struct aes128 *aes, const uint8_t key[AES_BLOCK]);

/* Encrypt one block in place. */
void aes128_encrypt(const struct aes128 *aes, uint8_t block[AES_BLOCK]);

/*
 * Encrypt `n` bytes, a multiple of 16, in place in CBC mode. `chain` is the
 * last block of what went before and is carried on.
 */
void aes128_cbc(const struct aes128 *aes, uint8_t chain[AES_BLOCK],
		uint8_t *data, size_t n);

/* 0, or -1 if the example of FIPS-197, appendix C.1, does not come out. */
int aes_selftest(void);

#endif
