/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lazy_module.c - a library of 1000 functions that calls each of them once
 * through its procedure linkage table: a thousand lookups by the loader, each
 * through all libraries opened with RTLD_GLOBAL.
 */
#define TEN(X, n) \
	X(n##0)   \
	X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define HUNDRED(X, n)                                                    \
	TEN(X, n##0)                                                     \
	TEN(X, n##1)                                                     \
	TEN(X, n##2)                                                     \
	TEN(X, n##3) TEN(X, n##4) TEN(X, n##5) TEN(X, n##6) TEN(X, n##7) \
		TEN(X, n##8) TEN(X, n##9)
#define THOUSAND(X)                                                           \
	HUNDRED(X, 0)                                                         \
	HUNDRED(X, 1)                                                         \
	HUNDRED(X, 2)                                                         \
	HUNDRED(X, 3) HUNDRED(X, 4) HUNDRED(X, 5) HUNDRED(X, 6) HUNDRED(X, 7) \
		HUNDRED(X, 8) HUNDRED(X, 9)

#define DEFINE(n)                                    \
	int lazy_##n(void);                          \
	__attribute__((noinline)) int lazy_##n(void) \
	{                                            \
		__asm__ volatile("");                \
		return 1;                            \
	}
#define CALL(n) +lazy_##n()

THOUSAND(DEFINE)

int lazy_all(void);

int lazy_all(void)
{
	return 0 THOUSAND(CALL);
}
