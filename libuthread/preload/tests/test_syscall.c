/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_syscall.c - the kernel's calls without libc's functions for them: syscall(), and
 * on x86-64 the instruction itself, as liburing has it. No signal comes, so none ends
 * with EINTR, however many others want the CPU. And what futexes say, as Rust's std and
 * others call them.
 *
 * With an argument only syscall(): it begins anew where no spare worker stands in, and
 * each tick ends the call.
 */
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "check.h"

#define HOGS 3
#define TIMES 4
#define MS 1000000l

static volatile int stop, only_called;

static void *computes(void *arg)
{
	while (!stop)
		;
	return arg;
}

static const struct timespec a_while = { 0, 30 * MS };

/* ---- by syscall() ---- */

static void futexes(void)
{
	static uint32_t word; /* shared: the kernel's */
	const struct timespec until = in_ms(CLOCK_MONOTONIC, 30);

	IS(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &a_while), -1);
	IS(errno, ETIMEDOUT);
	IS(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &until, NULL,
		   FUTEX_BITSET_MATCH_ANY),
	   -1);
	IS(errno, ETIMEDOUT);
}

static void waits(void)
{
	const int fd = epoll_create1(0);
	struct timespec time;
	struct epoll_event e;

	CHECK(fd >= 0);
	IS(syscall(SYS_epoll_pwait, fd, &e, 1, 30, NULL, 8), 0);
#ifdef SYS_poll
	IS(syscall(SYS_epoll_wait, fd, &e, 1, 30), 0);
	IS(syscall(SYS_poll, NULL, 0, 30), 0);
#endif
	IS(syscall(SYS_nanosleep, &a_while, NULL), 0);
	IS(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &a_while, NULL), 0);
	time = a_while; /* the kernel says what is left */
	IS(syscall(SYS_ppoll, NULL, 0, &time, NULL, 8), 0);
	time = a_while;
	IS(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &time, NULL), 0);
	close(fd);
}

static void events(void)
{
	aio_context_t context = 0;
	struct io_event e;

	if (syscall(SYS_io_setup, 1, &context))
		return; /* a kernel without */
	IS(syscall(SYS_io_getevents, context, 1, 1, &e, &a_while), 0);
	IS(syscall(SYS_io_pgetevents, context, 1, 1, &e, &a_while, NULL), 0);
	IS(syscall(SYS_io_destroy, context), 0);
}

/* ---- io_uring ---- */

#if defined(__x86_64__)

/* How compilers make it, alone and in a loop. */
static long plain_enter(long ring, long n, long least, long flags)
{
	register long r10 __asm__("r10") = flags;
	register long r8 __asm__("r8") = 0;
	register long r9 __asm__("r9") = 0;
	long got;

	__asm__ volatile("mov %1, %%eax\n\tsyscall"
			 : "=&a"(got)
			 : "i"(SYS_io_uring_enter), "D"(ring), "S"(n),
			   "d"(least), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return got;
}

static long looped_enter(long ring, long n, long least, long flags)
{
	register long r10 __asm__("r10") = flags;
	register long r8 __asm__("r8") = 0;
	register long r9 __asm__("r9") = 0;
	register long nr __asm__("r15") = SYS_io_uring_enter;
	long got;

	__asm__ volatile("mov %%r15d, %%eax\n\tsyscall"
			 : "=&a"(got)
			 : "r"(nr), "D"(ring), "S"(n), "d"(least), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return got;
}

#endif

static long called_enter(long ring, long n, long least, long flags)
{
	const long got =
		syscall(SYS_io_uring_enter, ring, n, least, flags, NULL, 0);

	return got < 0 ? -errno : got;
}

static struct ring {
	struct io_uring_params p;
	char *sq, *cq;
	struct io_uring_sqe *sqe;
	int fd;
} ring;

#define AT(base, offset) ((uint32_t *)(void *)((base) + (offset)))

static char *map(int fd, size_t bytes, long offset)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       offset);

	CHECK(p != MAP_FAILED);
	return p;
}

static int ring_begin(struct ring *r)
{
	r->fd = (int)syscall(SYS_io_uring_setup, 4, &r->p);
	if (r->fd < 0)
		return 0; /* a kernel without, or it is forbidden */
	r->sq = map(r->fd,
		    r->p.sq_off.array + r->p.sq_entries * sizeof(uint32_t),
		    IORING_OFF_SQ_RING);
	r->cq = map(r->fd,
		    r->p.cq_off.cqes +
			    r->p.cq_entries * sizeof(struct io_uring_cqe),
		    IORING_OFF_CQ_RING);
	r->sqe = (struct io_uring_sqe *)(void *)map(
		r->fd, r->p.sq_entries * sizeof(*r->sqe), IORING_OFF_SQES);
	return 1;
}

/* Something is over in a while: it is waited for after it was begun, and with that. */
static void wait_in(struct ring *r, long (*enter)(long, long, long, long),
		    int at_once)
{
	static struct __kernel_timespec t = { 0, 30 * MS };
	uint32_t *tail = AT(r->sq, r->p.sq_off.tail);
	const uint32_t i = *tail & *AT(r->sq, r->p.sq_off.ring_mask);
	uint32_t *head = AT(r->cq, r->p.cq_off.head);

	memset(&r->sqe[i], 0, sizeof(r->sqe[i]));
	r->sqe[i].opcode = IORING_OP_TIMEOUT;
	r->sqe[i].fd = -1;
	r->sqe[i].addr = (uint64_t)(uintptr_t)&t;
	r->sqe[i].len = 1;
	AT(r->sq, r->p.sq_off.array)[i] = i;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (at_once) {
		IS(enter(r->fd, 1, 1, IORING_ENTER_GETEVENTS), 1);
	} else {
		IS(enter(r->fd, 1, 0, 0), 1);
		IS(enter(r->fd, 0, 1, IORING_ENTER_GETEVENTS), 0);
	}
	while (*head ==
	       __atomic_load_n(AT(r->cq, r->p.cq_off.tail), __ATOMIC_ACQUIRE)) {
		/* What began it may have come back before it waited. */
		CHECK(at_once);
		IS(enter(r->fd, 0, 1, IORING_ENTER_GETEVENTS), 0);
	}
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
}

static void *all_waits(void *arg)
{
	int i;

	for (i = 0; i < TIMES; i++) {
		futexes();
		waits();
		events();
		if (ring.fd < 0)
			continue;
		wait_in(&ring, called_enter, i % 2);
#if defined(__x86_64__)
		if (only_called)
			continue;
		wait_in(&ring, plain_enter, i % 2);
		wait_in(&ring, looped_enter, i % 2);
#endif
	}
	return arg;
}

/* ---- what futexes say ---- */

static void fails(long op, uint32_t *word, const void *time, uint32_t *to,
		  int error)
{
	IS(syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, 0, time, to, 0),
	   -1);
	IS(errno, error);
}

static void *wrong(void *arg)
{
	static uint32_t words[2];
	uint32_t *odd = (uint32_t *)(void *)((char *)words + 1),
		 *none = (uint32_t *)8, *kernels = (uint32_t *)-4096l;
	const struct timespec now = { 0, 0 };

	fails(FUTEX_WAIT, odd, &now, NULL, EINVAL);
	fails(FUTEX_WAKE, odd, NULL, NULL, EINVAL);
	fails(FUTEX_WAIT, NULL, &now, NULL, EFAULT);
	fails(FUTEX_WAIT, none, &now, NULL, EFAULT);
	fails(FUTEX_WAIT, kernels, &now, NULL, EFAULT);
	fails(FUTEX_WAIT, words, none, NULL, EFAULT);
	fails(FUTEX_REQUEUE, words, NULL, odd, EINVAL);
	fails(FUTEX_CMP_REQUEUE, words, (void *)-1l, words + 1, EINVAL);
	fails(FUTEX_CMP_REQUEUE, none, NULL, words, EFAULT);
	fails(FUTEX_WAKE_OP, words, NULL, odd, EINVAL);
	IS(syscall(SYS_futex, none, FUTEX_WAKE_PRIVATE, 1), 0);
	return arg;
}

struct sleeper {
	uint32_t word;
	pthread_t thread;
};

static void *sleeps(void *arg)
{
	struct sleeper *s = arg;

	IS(syscall(SYS_futex, &s->word, FUTEX_WAIT_PRIVATE, 0, NULL), 0);
	return NULL;
}

/* One is moved there from here; 0: nobody waits here. */
static long move(uint32_t *from, uint32_t *to)
{
	return syscall(SYS_futex, from, FUTEX_CMP_REQUEUE_PRIVATE, 0, 1l, to,
		       *from);
}

/* As it can be moved, there and back, it sleeps. */
static void wait_for_sleeper(uint32_t *word)
{
	static uint32_t other;

	while (!move(word, &other))
		usleep(1000);
	IS(move(&other, word), 1);
}

/* Who waits there is woken if the second word was as told. */
static void wake_two(uint32_t op, uint32_t was, uint32_t is, long expected)
{
	struct sleeper s[2] = { { 0 } };
	long woken;
	int i;

	for (i = 0; i < 2; i++)
		s[i].thread = start(sleeps, &s[i]);
	for (i = 0; i < 2; i++)
		wait_for_sleeper(&s[i].word);
	s[1].word = was;
	woken = syscall(SYS_futex, &s[0].word, FUTEX_WAKE_OP_PRIVATE, 1, 1l,
			&s[1].word, op);
	IS(woken, expected);
	IS(s[1].word, is);
	if (woken == 1)
		IS(syscall(SYS_futex, &s[1].word, FUTEX_WAKE_PRIVATE, 1), 1);
	for (i = 0; i < 2; i++)
		IS(pthread_join(s[i].thread, NULL), 0);
}

static void *woken_by_operation(void *arg)
{
	wake_two(FUTEX_OP(FUTEX_OP_SET, 5, FUTEX_OP_CMP_EQ, 1), 1, 5, 2);
	wake_two(FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_NE, 1), 1, 6, 1);
	wake_two(FUTEX_OP(FUTEX_OP_ADD, -1, FUTEX_OP_CMP_GT, 1), 2, 1, 2);
	wake_two(FUTEX_OP(FUTEX_OP_OR, 4, FUTEX_OP_CMP_LT, -1), (uint32_t)-2,
		 (uint32_t)-2, 2);
	wake_two(FUTEX_OP(FUTEX_OP_ANDN, 3, FUTEX_OP_CMP_LE, 6), 7, 4, 1);
	wake_two(FUTEX_OP((FUTEX_OP_XOR | FUTEX_OP_OPARG_SHIFT), 3,
			  FUTEX_OP_CMP_GE, 7),
		 7, 15, 2);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t hogs[HOGS];
	int i;

	(void)argv;
	only_called = argc > 1;
	if (!ring_begin(&ring))
		ring.fd = -1;
	IS(pthread_join(start(wrong, NULL), NULL), 0);
	IS(pthread_join(start(woken_by_operation, NULL), NULL), 0);
	for (i = 0; i < HOGS; i++)
		hogs[i] = start(computes, NULL);
	IS(pthread_join(start(all_waits, NULL), NULL), 0);
	all_waits(NULL);
	stop = 1;
	for (i = 0; i < HOGS; i++)
		IS(pthread_join(hogs[i], NULL), 0);
	return 0;
}
