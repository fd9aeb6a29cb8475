/* SPDX-License-Identifier: Apache-2.0 */
/* panic.c - one clear line on standard error, and the end if it must be. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/nouns.h"

void (*panic_dump)(int fd);

static void line(const char *fmt, va_list ap)
{
	char buf[512] = "uthread: ";
	int n = 9, saved = errno;

	n += vsnprintf(buf + n, sizeof(buf) - (size_t)n - 1, fmt, ap);
	if (n > (int)sizeof(buf) - 2)
		n = (int)sizeof(buf) - 2;
	buf[n++] = '\n';
	while (write(2, buf, (size_t)n) < 0 && errno == EINTR)
		;
	errno = saved;
}

void ut_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line(fmt, ap);
	va_end(ap);
}

void ut_panic(const char *fmt, ...)
{
	static uint32_t dumped;
	va_list ap;

	va_start(ap, fmt);
	line(fmt, ap);
	va_end(ap);
	/* Once, should it panic itself, or several at a time. */
	if (panic_dump && !__atomic_exchange_n(&dumped, 1, __ATOMIC_RELAXED))
		panic_dump(2);
	abort();
}
