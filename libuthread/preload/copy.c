/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - copy_file_range() and sendfile() from file to file are whole.
 *
 * The kernel moves these by a pipe, looks for signals between two parts and returns how much
 * has gone through: a tick's, too. With glibc's threads nothing ends such a copy short, and
 * programs rely on it (libuv). What a tick has cut off is copied by the next call, until the
 * file ends, there is an error (which the program's own next call says again) or a handler
 * of the program has run, for whom the kernel would have stopped as well.
 *
 * To a pipe or a socket less than all is usual, and may be for another reason.
 */
#undef _FILE_OFFSET_BITS /* other symbols for the same */
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libc.h"

#define MOST ((size_t)0x7ffff000) /* at a time, whatever is asked for */

enum by { BY_RANGE, BY_SENDFILE, BY_SYSCALL };

struct copy {
	enum by by;
	int in, out;
	off64_t *in_at, *out_at;
	unsigned flags;
};

static ssize_t some(const struct copy *c, size_t bytes)
{
	if (c->by == BY_RANGE)
		return LIBC(copy_file_range)(c->in, c->in_at, c->out, c->out_at,
					     bytes, c->flags);
	if (c->by == BY_SENDFILE)
		return LIBC(sendfile)(c->out, c->in, c->in_at, bytes);
	return LIBC(syscall)(SYS_copy_file_range, c->in, c->in_at, c->out,
			     c->out_at, bytes, c->flags);
}

static bool are_files(const struct copy *c)
{
	struct stat in, out;

	return !fstat(c->in, &in) && !fstat(c->out, &out) &&
	       S_ISREG(in.st_mode) && S_ISREG(out.st_mode);
}

static ssize_t whole(const struct copy *c, size_t bytes)
{
	const uint32_t handled = uthread_handlers_run();
	const size_t all = bytes < MOST ? bytes : MOST;
	ssize_t got = some(c, all);
	const int saved = errno;
	size_t done;

	if (likely(got <= 0 || (size_t)got >= all) || !uthread_self())
		return got;
	done = (size_t)got;
	if (are_files(c))
		while (done < all && uthread_handlers_run() == handled &&
		       (got = some(c, all - done)) > 0)
			done += (size_t)got;
	errno = saved;
	return (ssize_t)done;
}

EXPORT ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at,
			       size_t bytes, unsigned flags)
{
	const struct copy c = { BY_RANGE, in, out, in_at, out_at, flags };

	uthread_testcancel();
	return or_cancelled(whole(&c, bytes));
}

EXPORT ssize_t sendfile(int out, int in, off_t *in_at, size_t bytes)
{
	const struct copy c = { BY_SENDFILE, in, out, in_at, NULL, 0 };

	return whole(&c, bytes);
}
SAME(sendfile64, sendfile);

/* `a`: its arguments, as the kernel has them. */
long copy_by_syscall(long nr, const long *a)
{
	const struct copy c = {
		nr == SYS_sendfile ? BY_SENDFILE : BY_SYSCALL,
		(int)(nr == SYS_sendfile ? a[1] : a[0]),
		(int)(nr == SYS_sendfile ? a[0] : a[2]),
		(off64_t *)(nr == SYS_sendfile ? a[2] : a[1]),
		(off64_t *)(nr == SYS_sendfile ? 0 : a[3]),
		(unsigned)(nr == SYS_sendfile ? 0 : a[5]),
	};

	return whole(&c, (size_t)(nr == SYS_sendfile ? a[3] : a[4]));
}

/* The runtime's own, in parts. */
HIDDEN ssize_t core_sendfile64(int out, int in, off64_t *in_at, size_t bytes);
HIDDEN ssize_t core_sendfile64(int out, int in, off64_t *in_at, size_t bytes)
{
	return LIBC(sendfile)(out, in, in_at, bytes);
}
