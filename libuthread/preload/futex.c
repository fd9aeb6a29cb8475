/* SPDX-License-Identifier: Apache-2.0 */
/*
 * futex.c - syscall(SYS_futex) and its younger kin, of who has locks of its own (Rust's
 * std, folly, abseil): they wait in the table of uthread_futex_wait().
 *
 * Shared futexes are the kernel's, as is what nobody uses privately (PI). And so is
 * futex_waitv(), for the table knows one word for each who waits: while anybody is in
 * there, who wakes asks the kernel as well for those that the table has not.
 *	waits: in_kernel++;	  the kernel reads the word
 *	wakes: changes the word;  the table; a fence; in_kernel?
 * So who wakes sees who waits, or the kernel sees the word.
 *
 * A word that some code waits for by syscall() and other code wakes by an
 * instruction of its own would be in two tables; nobody is known who does.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "libc.h"

HIDDEN long core_syscall(long nr, ...);

/* Of Linux 6.7; a number is the same for all processors. */
#define NR_FUTEX_WAKE 454
#define NR_FUTEX_WAIT 455
#define NR_FUTEX_REQUEUE 456

#define PRIVATE_WORD (2u | 128u) /* FUTEX2_SIZE_U32 | FUTEX2_PRIVATE */

struct wait_for { /* struct futex_waitv */
	uint64_t value, word;
	uint32_t flags, reserved;
};

/* Who is in the kernel for words that others wake here. One that was left by a jump is
 * counted for good: it costs a call for each who wakes. */
static uint32_t in_kernel;

void futex_enters_kernel(void)
{
	__atomic_fetch_add(&in_kernel, 1, __ATOMIC_SEQ_CST);
}

void futex_left_kernel(void)
{
	__atomic_fetch_sub(&in_kernel, 1, __ATOMIC_RELAXED);
}

/* The first comes always, as with the kernel. */
static int at_least_one(uint32_t count)
{
	return (int)count < 1 ? 1 : (int)count;
}

static int wake_all_of(uint32_t *word, int count, uint32_t bits)
{
	const int saved = errno;
	int n = uthread_futex_wake(word, count, bits);
	long more;

	__atomic_thread_fence(
		__ATOMIC_SEQ_CST); /* pairs: futex_enters_kernel() */
	if (likely(!__atomic_load_n(&in_kernel, __ATOMIC_RELAXED)) ||
	    n >= count)
		return n;
	more = core_syscall(SYS_futex, word,
			    FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, count - n,
			    NULL, NULL, bits);
	errno = saved;
	return more > 0 ? n + (int)more : n;
}

/* Who waits in the kernel is woken, and looks at its word. */
static int requeue(uint32_t *word, int count, int move, uint32_t *to)
{
	const int n = uthread_futex_requeue(word, count, move, to);
	const int left = count > INT_MAX - move ? INT_MAX : count + move - n;

	return left ? n + wake_all_of(word, left, UTHREAD_FUTEX_ANY) : n;
}

#define COMMAND (~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME))

static bool is_ours(int op)
{
	switch (op & COMMAND) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_WAKE_OP:
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
		return op & FUTEX_PRIVATE_FLAG;
	default:
		return false;
	}
}

/* FUTEX_WAIT took the clock from Linux 4.5 to 5.13; nothing else here does but
 * FUTEX_WAIT_BITSET. The word is another, so nobody waits. */
static bool takes_clock(int command)
{
	static const uint32_t other;
	const int saved = errno;
	bool takes;

	if (command != FUTEX_WAIT)
		return command == FUTEX_WAIT_BITSET;
	takes = core_syscall(SYS_futex, &other,
			     FUTEX_WAIT | FUTEX_PRIVATE_FLAG |
				     FUTEX_CLOCK_REALTIME,
			     1, NULL, NULL, 0) == 0 ||
		errno != ENOSYS;
	errno = saved;
	return takes;
}

/* FUTEX_WAKE_OP's fourth word: what is done to *to, which is *was before, and whether
 * that says that who waits there is woken, too. -ENOSYS: nothing that is known. */
static int operate(uint32_t *to, uint32_t what)
{
	const int cmp = what >> 24 & 15, with = (int)(what << 20) >> 20;
	uint32_t by = (uint32_t)((int)(what << 8) >> 20);
	int was;

	if (what >> 28 & FUTEX_OP_OPARG_SHIFT)
		by = 1u << (by & 31);
	switch (what >> 28 & 7) {
	case FUTEX_OP_SET:
		was = (int)__atomic_exchange_n(to, by, __ATOMIC_SEQ_CST);
		break;
	case FUTEX_OP_ADD:
		was = (int)__atomic_fetch_add(to, by, __ATOMIC_SEQ_CST);
		break;
	case FUTEX_OP_OR:
		was = (int)__atomic_fetch_or(to, by, __ATOMIC_SEQ_CST);
		break;
	case FUTEX_OP_ANDN:
		was = (int)__atomic_fetch_and(to, ~by, __ATOMIC_SEQ_CST);
		break;
	case FUTEX_OP_XOR:
		was = (int)__atomic_fetch_xor(to, by, __ATOMIC_SEQ_CST);
		break;
	default:
		return -ENOSYS;
	}
	switch (cmp) {
	case FUTEX_OP_CMP_EQ:
		return was == with;
	case FUTEX_OP_CMP_NE:
		return was != with;
	case FUTEX_OP_CMP_LT:
		return was < with;
	case FUTEX_OP_CMP_LE:
		return was <= with;
	case FUTEX_OP_CMP_GT:
		return was > with;
	case FUTEX_OP_CMP_GE:
		return was >= with;
	default:
		return -ENOSYS;
	}
}

/* Arguments as the kernel's. 0 or more, or -error. */
static long futex(uint32_t *word, int op, uint32_t value,
		  const struct timespec *time, uint32_t *to, uint32_t value3)
{
	const clockid_t clock = op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME :
							    CLOCK_MONOTONIC;
	/* With a time-out any handler does. */
	const int ends = time ? UTHREAD_FUTEX_EINTR_ANY : UTHREAD_FUTEX_EINTR;
	const bool waits = (op & COMMAND) == FUTEX_WAIT ||
			   (op & COMMAND) == FUTEX_WAIT_BITSET;
	struct timespec until;
	int move, also;

	if (unlikely(waits && time)) {
		if (is_nowhere(time))
			return -EFAULT;
		if (!time_is_valid(time) || time->tv_sec < 0)
			return -EINVAL;
	}
	if (unlikely(op & FUTEX_CLOCK_REALTIME) && !takes_clock(op & COMMAND))
		return -ENOSYS;
	if (unlikely((uintptr_t)word % sizeof(*word)))
		return -EINVAL;
	if (unlikely((waits || (op & COMMAND) == FUTEX_CMP_REQUEUE) &&
		     is_nowhere(word)))
		return -EFAULT;
	switch (op & COMMAND) {
	case FUTEX_WAIT:
		if (time) {
			until = time_after(clock, time);
			time = &until;
		}
		return -uthread_futex_wait(word, value, UTHREAD_FUTEX_ANY,
					   clock, time, ends);
	case FUTEX_WAIT_BITSET:
		return -uthread_futex_wait(word, value, value3, clock,
					   kernels(clock, time, &until), ends);
	case FUTEX_WAKE:
		return wake_all_of(word, at_least_one(value),
				   UTHREAD_FUTEX_ANY);
	case FUTEX_WAKE_BITSET:
		return value3 ? wake_all_of(word, at_least_one(value), value3) :
				-EINVAL;
	case FUTEX_WAKE_OP:
		if ((uintptr_t)to % sizeof(*to))
			return -EINVAL;
		if (is_nowhere(to))
			return -EFAULT;
		also = operate(to, value3);
		if (also < 0)
			return also;
		move = wake_all_of(word, at_least_one(value),
				   UTHREAD_FUTEX_ANY);
		if (also)
			move += wake_all_of(
				to, at_least_one((uint32_t)(uintptr_t)time),
				UTHREAD_FUTEX_ANY);
		return move;
	case FUTEX_CMP_REQUEUE:
		if ((int)value < 0 || (int)(uintptr_t)time < 0)
			break; /* said below, and first */
		if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value3)
			return -EAGAIN;
		break;
	default:
		break;
	}
	/* Here the fourth argument is a number. */
	move = (int)(uintptr_t)time;
	if (unlikely((int)value < 0 || move < 0 || (uintptr_t)to % sizeof(*to)))
		return -EINVAL;
	return requeue(word, (int)value, move, to);
}

/* ---- the younger ones ---- */

static long futex_wait_2(const long *a)
{
	uint32_t *const word = (uint32_t *)a[0];
	const struct timespec *until = (const struct timespec *)a[4];
	struct timespec room;

	if ((uintptr_t)word % sizeof(*word) || (uint64_t)a[1] > UINT32_MAX ||
	    (uint64_t)a[2] > UINT32_MAX || !a[2])
		return -EINVAL;
	if (is_nowhere(word) || (until && is_nowhere(until)))
		return -EFAULT;
	if (until && (!clock_is_known((clockid_t)a[5]) ||
		      !time_is_valid(until) || until->tv_sec < 0))
		return -EINVAL;
	until = kernels((clockid_t)a[5], until, &room);
	return -uthread_futex_wait(word, (uint32_t)a[1], (uint32_t)a[2],
				   until ? (clockid_t)a[5] : CLOCK_MONOTONIC,
				   until, UTHREAD_FUTEX_EINTR);
}

static long futex_wake_2(const long *a)
{
	uint32_t *const word = (uint32_t *)a[0];

	if ((uintptr_t)word % sizeof(*word) || (uint64_t)a[1] > UINT32_MAX ||
	    !a[1])
		return -EINVAL;
	return (int)a[2] > 0 ? wake_all_of(word, (int)a[2], (uint32_t)a[1]) : 0;
}

static long futex_requeue_2(const struct wait_for *w, int count, int move)
{
	uint32_t *const word = (uint32_t *)(uintptr_t)w[0].word;
	uint32_t *const to = (uint32_t *)(uintptr_t)w[1].word;

	if (count < 0 || move < 0 || (uintptr_t)word % sizeof(*word) ||
	    (uintptr_t)to % sizeof(*to))
		return -EINVAL;
	if (is_nowhere(word))
		return -EFAULT;
	if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != w[0].value)
		return -EAGAIN;
	return requeue(word, count, move, to);
}

static bool is_private(const struct wait_for *w)
{
	return w->flags == PRIVATE_WORD && !w->reserved;
}

bool futex_call(long nr, const long a[6], long *got)
{
	const struct wait_for *const w = (const struct wait_for *)a[0];

	switch (nr) {
	case SYS_futex:
		if (!is_ours((int)a[1]))
			return false;
		*got = futex((uint32_t *)a[0], (int)a[1], (uint32_t)a[2],
			     (const struct timespec *)a[3], (uint32_t *)a[4],
			     (uint32_t)a[5]);
		break;
	case NR_FUTEX_WAIT:
		if ((uint32_t)a[3] != PRIVATE_WORD)
			return false;
		*got = futex_wait_2(a);
		break;
	case NR_FUTEX_WAKE:
		if ((uint32_t)a[3] != PRIVATE_WORD)
			return false;
		*got = futex_wake_2(a);
		break;
	case NR_FUTEX_REQUEUE:
		if (a[1] || is_nowhere(w) || !is_private(&w[0]) ||
		    !is_private(&w[1]))
			return false;
		*got = futex_requeue_2(w, (int)a[2], (int)a[3]);
		break;
	default:
		return false;
	}
	if (*got < 0) {
		errno = (int)-*got;
		*got = -1;
	}
	return true;
}
