/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_calls.h - every system call of src/io can say what its manual page says it may.
 *
 * As faults.h, the library of the release with other names for these calls
 * (meson.build). There a call fails that asks for something; here one fails, or does
 * less than it was asked for, that is a step of input and output: so a fault is a
 * call, what it says, at which use of it, and how often in a row.
 *
 * What the kernel does before it says so, it does here, too: a close() that fails has
 * closed, and a connect() that is interrupted goes on.
 */
#ifndef UTHREAD_TEST_IO_CALLS_H
#define UTHREAD_TEST_IO_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum io_call {
	CALL_ACCEPT4,
	CALL_CLOSE,
	CALL_CLOSE_RANGE,
	CALL_CONNECT,
	CALL_DUP, /* dup3 */
	CALL_EPOLL_CREATE1,
	CALL_EPOLL_CTL,
	CALL_EPOLL_PWAIT2,
	CALL_EVENTFD,
	CALL_FCNTL,
	CALL_FDATASYNC,
	CALL_FSTAT,
	CALL_FSYNC,
	CALL_GETSOCKOPT,
	CALL_LSEEK,
	CALL_OPENAT,
	CALL_PIDFD_OPEN,
	CALL_PPOLL,
	CALL_PREAD, /* with its vectors and offsets: read, readv, preadv2 ... */
	CALL_PTHREAD_CREATE,
	CALL_PWRITE,
	CALL_RECV, /* recvfrom, recvmsg */
	CALL_RING_ENTER,
	CALL_RING_MAP,
	CALL_RING_ORDER, /* of a read, a write, an fsync: its answer (io_ring.c) */
	CALL_RING_REGISTER,
	CALL_RING_SETUP,
	CALL_RING_WATCH, /* of a poll: the same */
	CALL_SEND,
	CALL_SENDFILE,
	CALL_SPLICE,
	CALL_WAITID,
	CALL_WAITPID,
	CALL_WAKE, /* read and write of the eventfd that wakes the poller */
	IO_CALLS,
};

extern const char *const io_call_names[IO_CALLS];

/* Short instead of an error: one byte. */
#define SHORT (-1)

struct io_fault {
	enum io_call call;
	int error; /* or SHORT */
	uint32_t at; /* the first use that fails, from 1 */
	uint32_t times; /* and so many in a row; 0: none */
	uint32_t hits; /* atomic: that have failed */
};

extern struct io_fault io_fault;
/* Uses so far, of all kinds. Atomic. */
extern uint32_t io_calls[IO_CALLS];

/* One more use of it: what it is to say, 0: as ever. */
int io_fault_now(enum io_call call);

/* Called before the library closes one, or puts another file in its place. */
extern void (*io_before_close)(int fd);
/* Called before it closes a range. */
extern void (*io_before_close_range)(void);
/* Called before it tries to receive a message. */
extern void (*io_before_recvmsg)(int fd);
/* Called before a helper reads from a file, or writes to it, at an offset, and before
 * fsync(). */
extern void (*io_before_file)(void);

/* epoll_pwait() counts as epoll_pwait2(). */
extern bool io_fault_older;

/* ---- io_ring.c ---- */

/* io_uring_enter() by this kernel thread. */
extern __thread uint32_t io_ring_enters_here;

/* With the arguments of the system call; -1 and errno. */
long io_ring_setup(const long a[6]);
long io_ring_enter(const long a[6]);
/* The kernel can be made to give other answers to requests. */
bool io_ring_answers(void);

#endif
