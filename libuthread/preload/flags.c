/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags.c - calls that change what is known of a descriptor: whether reading from it
 * waits, and for how long (uthread_io_blocks(); fcntl() is in points.c). And those that
 * take it away from the runtime's sight, or give it to another process.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "libc.h"

HIDDEN int core_setsockopt(int fd, int level, int name, const void *value,
			   socklen_t bytes);

EXPORT int ioctl(int fd, unsigned long what, ...)
{
	va_list more;
	void *arg;
	int got;

	va_start(more, what);
	arg = va_arg(more, void *);
	va_end(more);
	got = LIBC(ioctl)(fd, what, arg);
	if (what == FIONBIO)
		uthread_io_changed(fd);
	return got;
}

/* As libuthread asks how much there is to read. */
HIDDEN int core_ioctl(int fd, unsigned long what, ...);
HIDDEN int core_ioctl(int fd, unsigned long what, ...)
{
	va_list more;
	void *arg;

	va_start(more, what);
	arg = va_arg(more, void *);
	va_end(more);
	return LIBC(ioctl)(fd, what, arg);
}

static bool is_time_out(int level, int name)
{
	return level == SOL_SOCKET &&
	       (name == SO_RCVTIMEO_OLD || name == SO_RCVTIMEO_NEW ||
		name == SO_SNDTIMEO_OLD || name == SO_SNDTIMEO_NEW);
}

EXPORT int setsockopt(int fd, int level, int name, const void *value,
		      socklen_t bytes)
{
	const int got = core_setsockopt(fd, level, name, value, bytes);

	if (is_time_out(level, name))
		uthread_io_changed(fd);
	return got;
}

EXPORT int fclose(FILE *file)
{
	uthread_io_given(fileno(file));
	return LIBC(fclose)(file);
}

HIDDEN int core_fclose(FILE *file);
HIDDEN int core_fclose(FILE *file)
{
	return LIBC(fclose)(file);
}

void gives_away(const struct msghdr *m)
{
	struct cmsghdr *c;
	size_t i;
	int fd;

	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR((struct msghdr *)m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		    c->cmsg_len < CMSG_LEN(0))
			continue;
		for (i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd); i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			uthread_io_given(fd);
		}
	}
}
