/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lazy_module.c - a library of 1000 functions that calls each of them once
 * through its procedure linkage table: a thousand lookups by the loader, each
 * through all libraries opened with RTLD_GLOBAL.
 */
#define FIVE(X, a, b, c, d, e) X(a) X(b) X(c) X(d) X(e)
#define TEN(X, n)                             \
	FIVE(X, n##0, n##1, n##2, n##3, n##4) \
	FIVE(X, n##5, n##6, n##7, n##8, n##9)
#define FIFTY(X, a, b, c, d, e) \
	TEN(X, a) TEN(X, b) TEN(X, c) TEN(X, d) TEN(X, e)
#define HUNDRED(X, n)                          \
	FIFTY(X, n##0, n##1, n##2, n##3, n##4) \
	FIFTY(X, n##5, n##6, n##7, n##8, n##9)
#define HALF(X, a, b, c, d, e) \
	HUNDRED(X, a) HUNDRED(X, b) HUNDRED(X, c) HUNDRED(X, d) HUNDRED(X, e)
#define THOUSAND(X) HALF(X, 0, 1, 2, 3, 4) HALF(X, 5, 6, 7, 8, 9)

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
