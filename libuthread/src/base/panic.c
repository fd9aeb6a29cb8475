/* SPDX-License-Identifier: Apache-2.0 */
/* panic.c - one clear line on standard error, and the end if it must be. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/nouns.h"

void (*panic_dump)(int fd);

#define BYTES 512

/* What was given by others may have more than one line, or tell the terminal to do
 * something. */
static size_t put(char *at, char c)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char u = (unsigned char)c;

	at[0] = c;
	if (u >= ' ' && u != 0x7f)
		return 1;
	at[0] = '\\';
	at[1] = c == '\n' ? 'n' : c == '\t' ? 't' : 'x';
	if (at[1] != 'x')
		return 2;
	at[2] = digits[u >> 4];
	at[3] = digits[u & 15];
	return 4;
}

static void line(const char *fmt, va_list ap)
{
	char said[BYTES], buf[BYTES + 16] = "uthread: ";
	size_t n = sizeof("uthread: ") - 1, i;
	int saved = errno;

	vsnprintf(said, sizeof(said), fmt, ap);
	for (i = 0; said[i] && n < BYTES; i++)
		n += put(buf + n, said[i]);
	buf[n++] = '\n';
	/* Not write(), which is one of ours, and may be what is not there. */
	while (syscall(SYS_write, 2, buf, n) < 0 && errno == EINTR)
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
