/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_module.c - a library with thread-local variables, built several times
 * for test_dlopen.c: MODEL is the TLS model, BYTES how much it has.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int *module_value(void);
char *module_bytes(size_t *n);
int module_mallocs(int n);

static __thread int value __attribute__((tls_model(MODEL))) = 42;
static __thread char bytes[BYTES] __attribute__((tls_model(MODEL))) = "text";

int *module_value(void)
{
	return &value;
}

char *module_bytes(size_t *n)
{
	*n = sizeof(bytes);
	return bytes;
}

/* In the libc that this library has. Returns how many were spoiled. */
int module_mallocs(int n)
{
	unsigned char *p[64] = { NULL };
	int i, bad = 0;

	for (i = 0; i < n; i++) {
		unsigned char **q = &p[i * 7 % 64];
		const size_t size = (size_t)(i * 31 % 900) + 2;

		if (*q)
			bad += (*q)[0] != (*q)[1];
		free(*q);
		*q = malloc(size);
		if (!*q)
			return -1;
		memset(*q, i, size);
	}
	for (i = 0; i < 64; i++)
		free(p[i]);
	return bad;
}
