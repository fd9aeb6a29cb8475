/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - one call that may have to wait, on the stack of who makes it.
 */
#ifndef UTHREAD_IO_REQUEST_H
#define UTHREAD_IO_REQUEST_H

#include "io/count.h"
#include "io/io.h"

#pragma GCC visibility push(hidden)

struct io_request;

/* Do it without waiting: what the kernel says, an error as a negative number;
 * -EAGAIN: it would wait. */
typedef long io_try(struct io_request *r);

/* Such reads say nothing of what is in the socket's queue. */
#define IO_BESIDE (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE)

struct io_request {
	int fd;
	int way; /* IO_IN, IO_OUT */
	int flags; /* MSG_* */
	int accept_flags; /* SOCK_* */
	int n; /* of iov */
	io_try *attempt;
	struct io_fd *e;
	uint64_t deadline;
	uint32_t gen; /* of e, when it began */
	bool whole; /* all of it, or it goes on */
	int how; /* its end, for io_call_end() */
	bool untold; /* it is tried, whatever is known of it: it may be that it does not
		      * wait, or the back end takes no more: now and then */
	unsigned naps; /* then; io_nap()'s */
	unsigned looks; /* so often it has, to see whether the other side hears it, */
	bool looked; /* and just now */
	long peeked; /* so much of what is to be seen whole is there */
	bool no_more; /* and no more comes */
	bool unpolled; /* epoll has said that it is not of a kind that waits */
	/* What there is to do; it shrinks as it is done. If `part` is not empty
	 * that comes first, and alone. */
	struct iovec part;
	const struct iovec *iov;
	size_t bytes; /* of both */
	struct sockaddr *name;
	union {
		socklen_t *room;
		socklen_t name_bytes;
	};
	struct msghdr *msg; /* NULL, too, once a part is done */
};

io_try io_try_recv, io_try_send, io_try_recvmsg, io_try_sendmsg, io_try_accept,
	io_try_any, io_try_nothing, io_try_read_nothing;

int io_kind_of(struct io_fd *e, int fd);

/* accept4() is known to wait there for who comes, and knows these flags. */
bool io_accept_waits(const struct io_fd *e, int flags);

/* -errno of here and now. Never inlined: with shared TLS the place of errno is another
 * one behind a wait, which the compiler does not know. */
long io_error(void);

/* A result as the kernel has it: -error. */
static inline long io_kernel(long got)
{
	return likely(got >= 0) ? got : io_error();
}

/* preadv2() or pwritev2() with RWF_NOWAIT said so; then read() and the like will do,
 * and know better. EPERM: a seccomp filter that does not know these; or a seal, of
 * which write() will say the same. */
static inline bool io_knows_no_nowait(long got)
{
	return got == -EOPNOTSUPP || got == -ENOSYS || got == -EPERM;
}

static inline size_t io_iov_bytes(const struct iovec *iov, int n)
{
	size_t bytes = 0;
	int i;

	for (i = 0; i < n; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

/* Until it is done: what the call returns, or -error. */
long io_run(struct io_request *r);
/* The same as a public call, with errno and cancellation. */
ssize_t io_call(struct io_request *r, const struct timespec *deadline);
/* Until there is an edge that is not of `edges` (io_edges()): 0, and it is to be tried, or an
 * error. */
int io_wait_to_try(struct io_request *r, uint32_t edges);
/* The table of descriptors has none for it: is there such a one? -error. */
long io_no_entry(int fd);
/* What the kernel says no to, of a number that was closed while it was waited for: it
 * may be another file that says so. */
long io_or_closed(const struct io_request *r, long err);
/* What a public call returns; -ECANCELED: never. */
long io_result(long got);
/* The same of a call that is a point of cancellation. Who was cancelled as it began, before
 * what made it fail (a close(), say), is to end, and not to hear of that. */
long io_point_result(long got);
/* False: malformed. NULL is none. */
bool io_until(const struct timespec *deadline, uint64_t *ns);

/* 0: one of the events, or an error of the descriptor. ETIMEDOUT, ECANCELED, and
 * what poll() says. */
int io_poll_one(int fd, short events, uint64_t deadline);

/* files.c: what can be read or written without waiting, or -EAGAIN; and as
 * io_knows_no_nowait(). `offset` < 0: at its own. */
long io_nowait(int fd, bool in, const struct iovec *iov, int n, off_t offset);

/* files.c: a file's; `offset` < 0: at its own. */
long io_file(int fd, bool in, const struct iovec *iov, int n, off_t offset);

/* children.c: as waitpid(), or -error. */
long io_wait_child(pid_t pid, int *status, int options, uint64_t deadline);

/* Can its end be waited for without a helper? */
bool io_child_tells(pid_t pid);

/* 0, or -error; errno may be another. */
long io_close(int fd);

/* poll() that does not wait, and is no point of cancellation: how many are ready, or
 * -error. */
long io_look(struct pollfd *fds, nfds_t n);

/* The other side has said its last, or this one hears no more. */
bool io_no_more(int fd);

/* A part is done, and the next call is to say what has ended it: not to be tried again. */
bool io_has_failed(const struct io_request *r);

/* lost.c: a part is done, and behind it the kernel has said what has ended the connection. */
void io_lost_keep(struct io_request *r, long error);
/* What an earlier call kept so, once: -error, or 0. */
long io_lost_take(struct io_request *r);

/* Who has nobody to tell sleeps a little, for longer each time, from 0.2 to 20 ms; no
 * worker is held. *naps: 0 at first. 0, ETIMEDOUT, ECANCELED. */
int io_nap(unsigned *naps, uint64_t deadline);

/* Wait in the kernel, as anybody may: 0, or an error. */
int io_block(int fd, short events, uint64_t deadline);

#pragma GCC visibility pop

#endif
