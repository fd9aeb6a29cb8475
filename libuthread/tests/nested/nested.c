/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nested.c - a nested function that is called by address: GCC puts code on the
 * stack for it. Part of a program, or a library that is opened later.
 */
#include "nested.h"

__attribute__((noipa)) static int apply(int (*fn)(int), int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += fn(i);
	return sum;
}

/* AddressSanitizer has locals elsewhere, which nobody makes executable. */
__attribute__((no_sanitize("address"))) int nested_sum(int n, int each)
{
	int plus(int i)
	{
		return i + each;
	}

	return apply(plus, n);
}

int nested_at_start;

__attribute__((constructor)) static void at_start(void)
{
#ifdef __SANITIZE_ADDRESS__ /* no handler of SIGSEGV */
	nested_at_start = 6;
#else
	nested_at_start = nested_sum(3, 1);
#endif
}
