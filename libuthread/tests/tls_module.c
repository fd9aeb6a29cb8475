/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_module.c - a library with thread-local variables, built several times
 * for test_dlopen.c: MODEL is the TLS model, BYTES how much it has.
 */
#include <stddef.h>

int *module_value(void);
char *module_bytes(size_t *n);

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
