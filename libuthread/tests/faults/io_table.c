/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_table.c - what each system call of src/io may say, and what of that the user may
 * see (io_table.h).
 *
 * EINTR (but of what closes) and EAGAIN are never seen, and neither is what the
 * runtime asks for itself (its back end, helpers), because it has other ways.
 *
 * Not here: a short read from a TCP socket, which says that it is empty (ready.c), and
 * any of a datagram, which is whole; ESPIPE of lseek(), which is what it is asked for;
 * EPERM of epoll_ctl(), which says of what kind a file is, for good, and its EEXIST
 * in a row.
 */
#include "io_table.h"

#include "util.h"

bool io_of_files;

const struct io_row io_table[] = {
	{ CALL_ACCEPT4,
	  0,
	  0,
	  0,
	  { EINTR,	     EAGAIN,	EBADF,	      ECONNABORTED,
	    EFAULT,	     EINVAL,	EMFILE,	      ENFILE,
	    ENOBUFS,	     ENOMEM,	ENOTSOCK,     EOPNOTSUPP,
	    EPERM,	     EPROTO,	ENOSR,	      ESOCKTNOSUPPORT,
	    EPROTONOSUPPORT, ETIMEDOUT, ENETDOWN,     ENOPROTOOPT,
	    EHOSTDOWN,	     ENONET,	EHOSTUNREACH, ENETUNREACH } },
	{ CALL_CLOSE, 0, 0, 0, { EBADF, EINTR, EIO, ENOSPC, EDQUOT } },
	{ CALL_CLOSE_RANGE, 0, 0, 0, { EINVAL, EMFILE, ENOMEM } },
	{ CALL_CONNECT,
	  0,
	  0,
	  0,
	  { EINTR, EAGAIN, EACCES, EPERM, EADDRINUSE, EADDRNOTAVAIL,
	    EAFNOSUPPORT, EBADF, ECONNREFUSED, EFAULT, ENETUNREACH, ENOTSOCK,
	    EPROTOTYPE, ETIMEDOUT } },
	{ CALL_DUP, 0, 0, 0, { EBADF, EBUSY, EINTR, EINVAL, EMFILE } },
	{ CALL_EPOLL_CREATE1,
	  1,
	  1,
	  0,
	  { EINVAL, EMFILE, ENFILE, ENOMEM, ENOSYS } },
	{ CALL_EPOLL_CTL,
	  0,
	  0,
	  0,
	  { EBADF, EEXIST, EINVAL, ELOOP, ENOENT, ENOMEM, ENOSPC } },
	{ CALL_EPOLL_PWAIT2, 1, 1, 0, { EFAULT, EINTR, ENOMEM, ENOSYS, EPERM } },
	{ CALL_EVENTFD,
	  1,
	  1,
	  0,
	  { EINVAL, EMFILE, ENFILE, ENODEV, ENOMEM, ENOSYS } },
	{ CALL_FCNTL, 0, 0, 0, { EBADF, EINVAL, EMFILE, EPERM } },
	{ CALL_FDATASYNC,
	  0,
	  0,
	  0,
	  { EINTR, EBADF, EIO, ENOSPC, EROFS, EINVAL, EDQUOT } },
	{ CALL_FSTAT, 0, 0, 0, { EBADF, EFAULT, ENOMEM, EOVERFLOW } },
	{ CALL_FSYNC,
	  0,
	  0,
	  0,
	  { EINTR, EBADF, EIO, ENOSPC, EROFS, EINVAL, EDQUOT } },
	{ CALL_GETSOCKOPT,
	  0,
	  0,
	  0,
	  { EBADF, EFAULT, EINVAL, ENOPROTOOPT, ENOTSOCK } },
	{ CALL_LSEEK, 1, 0, 0, { EBADF, EINVAL, ENXIO, EOVERFLOW } },
	{ CALL_OPENAT, 0, 0, 0, { EINTR,  EAGAIN,	EACCES,	   EBADF,
				  EBUSY,  EDQUOT,	EEXIST,	   EFAULT,
				  EFBIG,  EINVAL,	EISDIR,	   ELOOP,
				  EMFILE, ENAMETOOLONG, ENFILE,	   ENODEV,
				  ENOENT, ENOMEM,	ENOSPC,	   ENOTDIR,
				  ENXIO,  EOPNOTSUPP,	EOVERFLOW, EPERM,
				  EROFS,  ETXTBSY } },
	{ CALL_PIDFD_OPEN,
	  1,
	  0,
	  0,
	  { EINVAL, EMFILE, ENFILE, ENODEV, ENOMEM, ESRCH, ENOSYS } },
	{ CALL_PPOLL, 0, 0, 0, { EINTR, EFAULT, EINVAL, ENOMEM } },
	{ CALL_PREAD,
	  0,
	  0,
	  0,
	  { SHORT, EINTR, EAGAIN, EBADF, EFAULT, EINVAL, EPERM, EIO, EISDIR,
	    ENXIO, EOVERFLOW, ESPIPE, EOPNOTSUPP, ENOSYS, ECANCELED } },
	{ CALL_PTHREAD_CREATE, 1, 1, 0, { EAGAIN, EINVAL, EPERM } },
	{ CALL_PWRITE,
	  0,
	  0,
	  0,
	  { SHORT, EINTR, EAGAIN, EBADF, EDESTADDRREQ, EDQUOT, EFAULT, EFBIG,
	    EINVAL, EIO, ENOSPC, EPERM, EPIPE, ESPIPE, EOPNOTSUPP, ENOSYS } },
	{ CALL_RECV,
	  0,
	  0,
	  0,
	  { SHORT, EINTR, EAGAIN, EBADF, ECONNREFUSED, EFAULT, EINVAL, ENOMEM,
	    ENOTCONN, ENOTSOCK, ECONNRESET, ETIMEDOUT } },
	{ CALL_RING_ENTER,
	  1,
	  0,
	  0,
	  { SHORT, EINTR, EAGAIN, EBUSY, ENOMEM, EBADR } },
	{ CALL_RING_MAP, 1, 1, 1, { EAGAIN, ENOMEM, EPERM } },
	{ CALL_RING_ORDER,
	  0,
	  0,
	  0,
	  { SHORT, EINTR, EAGAIN, ECANCELED, EBADF, EDQUOT, EFBIG, EINVAL, EIO,
	    ENOMEM, ENOSPC, EOPNOTSUPP, EPERM } },
	{ CALL_RING_REGISTER, 1, 1, 1, { EINVAL, ENOMEM, EPERM } },
	{ CALL_RING_SETUP,
	  1,
	  1,
	  1,
	  { EAGAIN, EBUSY, EINTR, EINVAL, EMFILE, ENFILE, ENOMEM, ENOSYS,
	    EPERM } },
	{ CALL_RING_WATCH, 1, 0, 0, { ENOMEM, ECANCELED, EBADF } },
	{ CALL_SEND,
	  0,
	  0,
	  0,
	  { SHORT, EINTR, EAGAIN, EACCES, EALREADY, EBADF, ECONNRESET,
	    EDESTADDRREQ, EFAULT, EINVAL, EISCONN, EMSGSIZE, ENOBUFS, ENOMEM,
	    ENOTCONN, ENOTSOCK, EOPNOTSUPP, EPIPE } },
	{ CALL_SENDFILE,
	  0,
	  0,
	  0,
	  { SHORT, EINTR, EAGAIN, EBADF, EFAULT, EINVAL, EIO, ENOMEM, EOVERFLOW,
	    ESPIPE } },
	{ CALL_SPLICE,
	  0,
	  0,
	  0,
	  { SHORT, EINTR, EAGAIN, EBADF, EINVAL, ENOMEM, ESPIPE } },
	{ CALL_WAITID, 0, 0, 0, { EINTR, ECHILD, EINVAL } },
	{ CALL_WAITPID, 0, 0, 0, { ECHILD, EINVAL } },
	{ CALL_WAKE, 1, 0, 0, { EINTR, EAGAIN } },
};

const int io_rows = (int)(sizeof(io_table) / sizeof(io_table[0]));

int io_row_of(enum io_call call)
{
	int i;

	for (i = 0; io_table[i].call != call; i++)
		;
	return i;
}

/* May the user see it? */
static bool is_told(int err)
{
	const enum io_call call = io_fault.call;

	if (!load(&io_fault.times) || err != io_fault.error ||
	    io_table[io_row_of(call)].silent)
		return false;
	switch (err) {
	case EINTR:
		return call == CALL_CLOSE || call == CALL_DUP;
	case ECANCELED: /* given again */
		return call != CALL_RING_ORDER;
	case EAGAIN: /* of a lease; as below */
		return call == CALL_OPENAT ||
		       ((call == CALL_PREAD || call == CALL_PWRITE) &&
			io_of_files);
	case ENOMEM:
	case ENOSPC:
	case ELOOP:
	case ENOENT:
	case EEXIST:
		return call != CALL_EPOLL_CTL;
	default:
		return true;
	}
}

void io_may_say(const char *what, int err, int often)
{
	if (is_told(err) && often <= (int)load(&io_fault.hits))
		return;
	fprintf(stderr, "%s says %s, time %d\n", what, strerrorname_np(err),
		often);
	_exit(1);
}
