/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lost.c - an error that ended a connection, taken from the kernel behind a part.
 *
 * A call that is to do all of it says the part that it has done, and the next one says
 * what has ended it. io_has_failed() looks before each further try, so that the kernel
 * keeps the error; one that comes between that look and the try is the try's, and the
 * kernel forgets it. So it is kept here, for whoever asks next, in whichever way: who
 * writes is told at once, who reads behind what there is to read, as by the kernel.
 *
 * It is the file's, not the number's: another may have that, and nobody need have told
 * us (fclose()). The number of its inode is no other socket's for as long as it lives.
 * Where there is one, `ended` says so: no other call looks here.
 *
 * EPIPE is not kept: the kernel says it each time, and sends SIGPIPE with it.
 */
#include <sys/stat.h>

#include "io/request.h"

static bool is_said_once(long error)
{
	switch (error) {
	case ECONNRESET:
	case ECONNABORTED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENETDOWN:
		return true;
	default:
		return false;
	}
}

static uint64_t file_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

void io_lost_keep(struct io_request *r, long error)
{
	struct io_fd *e = r->e;

	if (!is_said_once(error) || io_kind_of(e, r->fd) != IO_TCP)
		return;
	store_relaxed(&e->lost_file, file_of(r->fd));
	if (load_acquire(&e->gen) != r->gen)
		return;
	store_release(&e->lost, (uint32_t)error); /* pairs: io_lost_take() */
	store_release(&e->ended, 1);
}

long io_lost_take(struct io_request *r)
{
	struct io_fd *e = r->e;
	uint32_t error;

	if (likely(!load_relaxed(&e->lost)) ||
	    r->flags & (MSG_OOB | MSG_ERRQUEUE))
		return 0;
	error = __atomic_exchange_n(&e->lost, 0, __ATOMIC_ACQUIRE);
	return error && load_relaxed(&e->lost_file) == file_of(r->fd) ?
		       -(long)error :
		       0;
}
