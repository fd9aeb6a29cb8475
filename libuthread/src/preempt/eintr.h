/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eintr.h - system calls that a tick found asleep.
 *
 * Most the kernel begins anew by itself after a handler with SA_RESTART: the
 * address in the signal's frame is that of the call's instruction. The others
 * are called again by calls.c, which knows all but those that libc makes from
 * inside of another function (getaddrinfo() polls), and those that programs make
 * without libc (liburing). On x86-64 these are begun
 * anew here, if a spare worker stands in meanwhile; without one libc has its
 * EINTR, for a call with a timeout that is begun anew at every tick never ends.
 *
 * The kernel has put -EINTR where the number of the call was, so it is read
 * from the instruction before, as the wrappers of glibc before 2.41 have it.
 * The arguments are still in their registers. On arm64 the first of them is
 * where -EINTR is now, and lost: there libc has its EINTR. So has a program whose own
 * instruction has the number from elsewhere; once, for a spare stands in then.
 *
 * How long it slept is lost too, but for the calls that say what is left. A
 * timeout that is relative starts again, so the wait is longer by the time
 * it had slept when somebody first waited for its worker.
 */
#ifndef UTHREAD_EINTR_H
#define UTHREAD_EINTR_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

/* A call that slept and that the kernel will begin anew. *nr: which. */
static inline bool call_restarts(const ucontext_t *uc, long *nr)
{
#if defined(__x86_64__)
	const unsigned char *pc =
		(const unsigned char *)uc->uc_mcontext.gregs[REG_RIP];

	*nr = (long)uc->uc_mcontext.gregs[REG_RAX];
	/* A byte at a time: another instruction may end where the page does. */
	return pc[0] == 0x0f && pc[1] == 0x05;
#else
	static const unsigned char instruction[] = { 0x01, 0x00, 0x00, 0xd4 };
	const void *pc = (const void *)(uintptr_t)uc->uc_mcontext.pc;

	*nr = (long)uc->uc_mcontext.regs[8];
	return !memcmp(pc, instruction, sizeof(instruction));
#endif
}

/* A call that slept and that ends with EINTR. */
static inline bool call_has_ended(const ucontext_t *uc)
{
#if defined(__x86_64__)
	static const unsigned char instruction[] = { 0x0f, 0x05 };
	const char *pc = (const char *)uc->uc_mcontext.gregs[REG_RIP];
	const long result = (long)uc->uc_mcontext.gregs[REG_RAX];
#else
	static const unsigned char instruction[] = { 0x01, 0x00, 0x00, 0xd4 };
	const char *pc = (const char *)(uintptr_t)uc->uc_mcontext.pc;
	const long result = (long)uc->uc_mcontext.regs[0];
#endif
	return result == -EINTR && !memcmp(pc - sizeof(instruction),
					   instruction, sizeof(instruction));
}

/* In code that is not libc's: there may be either. */
static inline bool call_is_seen(const ucontext_t *uc)
{
#if defined(__x86_64__)
	const greg_t *r = uc->uc_mcontext.gregs;

	return *(const unsigned char *)r[REG_RIP] == 0x0f ||
	       r[REG_RAX] == -EINTR;
#else
	long nr;

	return call_restarts(uc, &nr) ||
	       (long)uc->uc_mcontext.regs[0] == -EINTR;
#endif
}

/*
 * Of call_restarts(): it may sleep, and a handler end it with EINTR. One that has slept
 * and one that is just to begin look the same, and who calls dup() or sigprocmask() knows
 * of no EINTR; who calls close() would leave the number open. The rest are not ended.
 */
static inline bool call_may_sleep(const ucontext_t *uc, long nr)
{
#if defined(__x86_64__)
	const long second = (long)uc->uc_mcontext.gregs[REG_RSI];
#else
	const long second = (long)uc->uc_mcontext.regs[1];
#endif

	switch (nr) {
#ifdef SYS_open
	case SYS_open:
	case SYS_creat:
	case SYS_poll:
	case SYS_select:
	case SYS_epoll_wait:
	case SYS_pause:
#endif
	case SYS_openat:
#ifdef SYS_openat2
	case SYS_openat2:
#endif
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_epoll_pwait:
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
#endif
	case SYS_read:
	case SYS_readv:
	case SYS_pread64:
	case SYS_preadv:
	case SYS_preadv2:
	case SYS_write:
	case SYS_writev:
	case SYS_pwrite64:
	case SYS_pwritev:
	case SYS_pwritev2:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
	case SYS_sendfile:
	case SYS_splice:
	case SYS_tee:
	case SYS_vmsplice:
	case SYS_copy_file_range:
	case SYS_fallocate:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_flock:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_msgsnd:
	case SYS_msgrcv:
	case SYS_mq_timedsend:
	case SYS_mq_timedreceive:
	case SYS_io_getevents:
	case SYS_io_uring_enter:
#ifdef SYS_futex_waitv
	case SYS_futex_waitv:
#endif
	case SYS_wait4:
	case SYS_waitid:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
	case SYS_getrandom:
	case SYS_keyctl:
	case SYS_ptrace:
		return true;
	case SYS_futex: /* who wakes would wake nobody, and look no more */
		switch (second & FUTEX_CMD_MASK) {
		case FUTEX_WAIT:
		case FUTEX_WAIT_BITSET:
			return true;
		default:
			return false;
		}
	case SYS_fcntl:
		return second == F_SETLKW || second == F_OFD_SETLKW;
	case SYS_ioctl:
		return second == TCSBRK || second == TCSBRKP;
	default:
		return false;
	}
}

/* A call that slept and has ended, in code that is not libc's and may begin with a page. */
static inline bool call_has_ended_anywhere(const ucontext_t *uc)
{
#if defined(__x86_64__)
	const uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#else
	const uintptr_t pc = (uintptr_t)uc->uc_mcontext.pc;
#endif
	return (pc & 0xfff) >= 4 && call_has_ended(uc);
}

/* One that call_restarts() ends with EINTR instead. */
static inline void call_end(ucontext_t *uc)
{
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RAX] = -EINTR;
	uc->uc_mcontext.gregs[REG_RIP] += 2;
#else
	uc->uc_mcontext.regs[0] = (uint64_t)-EINTR;
	uc->uc_mcontext.pc += 4;
#endif
}

#if defined(__x86_64__)

/* The number that was moved to eax from the register `x86`, as instructions count
 * them: the call has left it as it was. */
static inline long number_in(const greg_t *r, unsigned x86)
{
	static const unsigned char index[] = {
		REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
		REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
		REG_R12, REG_R13, REG_R14, REG_R15,
	};

	return (int32_t)r[index[x86]];
}

/* Code before the end of a call's instruction: mov $number,%eax;
 * syscall; or with mov offset(%rsp),%edi in between; or xor %eax,%eax; syscall,
 * which is read(); or, where one is made again and again, mov %register,%eax; syscall.
 * -1: it is something else. */
static inline long call_number(const greg_t *r)
{
	const unsigned char *pc = (const unsigned char *)r[REG_RIP];
	int32_t nr;

	if (pc[-2] != 0x0f || pc[-1] != 0x05)
		return -1;
	if (pc[-4] == 0x31 && pc[-3] == 0xc0)
		return SYS_read;
	if (pc[-7] == 0xb8)
		memcpy(&nr, pc - 6, sizeof(nr));
	else if (pc[-11] == 0xb8 && pc[-6] == 0x8b && pc[-5] == 0x7c &&
		 pc[-4] == 0x24)
		memcpy(&nr, pc - 10, sizeof(nr));
	else if (pc[-4] == 0x89 && (pc[-3] & 0xc7) == 0xc0)
		return number_in(r,
				 (pc[-3] >> 3 & 7) | (pc[-5] == 0x44 ? 8 : 0));
	else
		return -1;
	return nr;
}

/* The code before it that call_number() reads. */
#define CALL_BYTES 11

#define ENTER_GETEVENTS 1
#define ENTER_EXT_ARG 8
#define ENTER_EXT_ARG_REG 64

/* What is behind io_uring_enter()'s fifth argument with ENTER_EXT_ARG. */
struct enter_arg {
	uint64_t mask;
	uint32_t mask_bytes, least_us;
	uint64_t time;
};

/* Has io_uring_enter() waited, and with no mask? What it was to begin it says, and not
 * EINTR, if it has begun any. */
static inline bool enter_interrupted(const greg_t *r)
{
	const long flags = r[REG_R10];

	if (!(flags & ENTER_GETEVENTS) || flags & ENTER_EXT_ARG_REG)
		return false;
	return !r[REG_R8] || (flags & ENTER_EXT_ARG &&
			      !((const struct enter_arg *)r[REG_R8])->mask);
}

/* A call that slept and that ends with EINTR. Not those that are given a
 * signal mask: they are made to be interrupted. Calls that moved data, or have
 * begun something, do not end with EINTR. *nr: which. `anywhere`: not in libc, whose
 * code goes on before that of any call. */
static inline bool call_interrupted(const ucontext_t *uc, bool anywhere,
				    long *nr)
{
	const greg_t *r = uc->uc_mcontext.gregs;

	if (r[REG_RAX] != -EINTR ||
	    (anywhere && (r[REG_RIP] & 0xfff) < CALL_BYTES))
		return false;
	*nr = call_number(r);
	switch (*nr) {
	case SYS_poll:
	case SYS_select:
	case SYS_epoll_wait:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_msgsnd:
	case SYS_msgrcv:
	/* With SO_RCVTIMEO or SO_SNDTIMEO. */
	case SYS_read:
	case SYS_write:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_accept:
	case SYS_accept4:
		return true;
	case SYS_io_getevents:
#ifdef SYS_futex_waitv
	case SYS_futex_waitv:
#endif
		return true;
	case SYS_io_uring_enter:
		return enter_interrupted(r);
	case SYS_io_pgetevents:
		return !r[REG_R9] || !*(void *const *)r[REG_R9];
	case SYS_futex:
		switch (r[REG_RSI] & FUTEX_CMD_MASK) {
		case FUTEX_WAIT:
		case FUTEX_WAIT_BITSET: /* pthread_cond_timedwait() */
			return true;
		default:
			return false;
		}
	case SYS_ppoll:
		return !r[REG_R10];
	case SYS_pselect6:
		return !r[REG_R9];
	case SYS_epoll_pwait:
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
#endif
		return !r[REG_R8];
	default:
		return false;
	}
}

/* Does it end at a time, or never, and not after so long? Then it may begin anew any
 * number of times. */
static inline bool call_waits_until(const ucontext_t *uc, long nr)
{
	const greg_t *r = uc->uc_mcontext.gregs;

	switch (nr) {
	case SYS_futex:
		return (r[REG_RSI] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET ||
		       !r[REG_R10];
#ifdef SYS_futex_waitv
	case SYS_futex_waitv:
		return true;
#endif
	case SYS_io_getevents:
	case SYS_io_pgetevents:
		return !r[REG_R8];
	case SYS_io_uring_enter:
		return !r[REG_R8] || !(r[REG_R10] & ENTER_EXT_ARG) ||
		       !((const struct enter_arg *)r[REG_R8])->time;
	default:
		return false;
	}
}

/* Let it begin anew on return from the handler. */
static inline void call_again(ucontext_t *uc, long nr)
{
	greg_t *r = uc->uc_mcontext.gregs;

	/* What is left has been written, if somebody wants to know it. */
	if (nr == SYS_nanosleep && r[REG_RSI])
		r[REG_RDI] = r[REG_RSI];
	else if (nr == SYS_clock_nanosleep && r[REG_R10] &&
		 !(r[REG_RSI] & TIMER_ABSTIME))
		r[REG_RDX] = r[REG_R10];
	r[REG_RAX] = nr;
	r[REG_RIP] -= 2;
}

#else

static inline bool call_interrupted(const ucontext_t *uc, bool anywhere,
				    long *nr)
{
	(void)uc;
	(void)anywhere;
	*nr = -1;
	return false;
}

static inline bool call_waits_until(const ucontext_t *uc, long nr)
{
	(void)uc;
	(void)nr;
	return false;
}

static inline void call_again(ucontext_t *uc, long nr)
{
	(void)uc;
	(void)nr;
}

#endif
#endif
