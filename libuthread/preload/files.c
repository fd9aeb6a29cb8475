/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - what waits for a disk, or a name server: a helper of libuthread's makes the
 * call, or io_uring, and the uthread parks.
 *
 * A helper is another thread: it has not what the caller may have said to the resolver
 * (_res) or of its locale (uselocale()). What needs no look-up is done at once, here.
 *
 * Not here: flock(), lockf(), fcntl(F_SETLKW). Nobody tells when a lock is given back,
 * and asking now and then would lose the queue and EDEADLK; a helper cannot give up one
 * that it gets for somebody whom a handler has called away. A spare stands in.
 */
#include <netdb.h>
#include <unistd.h>

#include "libc.h"

EXPORT int fsync(int fd)
{
	return uthread_may_park() ? uthread_fsync(fd) : LIBC(fsync)(fd);
}

EXPORT int fdatasync(int fd)
{
	return uthread_may_park() ? uthread_fdatasync(fd) : LIBC(fdatasync)(fd);
}

EXPORT int getaddrinfo(const char *node, const char *service,
		       const struct addrinfo *hints, struct addrinfo **found)
{
	if (!uthread_may_park() || !node ||
	    (hints && hints->ai_flags & AI_NUMERICHOST))
		return LIBC(getaddrinfo)(node, service, hints, found);
	return uthread_getaddrinfo(node, service, hints, found);
}
