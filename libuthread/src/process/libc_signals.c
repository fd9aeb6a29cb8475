/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc_signals.c - glibc's own signals, 32 and 33 (set*id and cancellation),
 * are handled on the carrier's TLS, which is the one on glibc's list.
 */
#include <signal.h>
#include <sys/syscall.h>

#include "process/process.h"
#include "tls/tls.h"

struct kernel_sigaction {
	void *handler;
	unsigned long flags;
#if defined(__x86_64__)
	void *restorer;
#endif
	unsigned long mask;
};

#define SIG_FIRST 32 /* SIGCANCEL, then SIGSETXID */

static void (*glibc_handler[2])(int, siginfo_t *, void *);

static void on_carrier(int sig, siginfo_t *si, void *uc)
{
	struct libc_block b;

	libc_block_enter(&b);
	glibc_handler[sig - SIG_FIRST](sig, si, uc);
	libc_block_leave(&b);
}

static void wrap_signal(int sig)
{
	struct kernel_sigaction sa;

	if (syscall(SYS_rt_sigaction, sig, NULL, &sa, sizeof(sa.mask)) ||
	    sa.handler == (void *)SIG_DFL || sa.handler == (void *)SIG_IGN)
		return;
	*(void **)&glibc_handler[sig - SIG_FIRST] = sa.handler;
	*(void (**)(int, siginfo_t *, void *))&sa.handler = on_carrier;
	/* On that block a handler of the program's would not find its uthread. */
	if (sig != SIG_FIRST)
		sa.mask = ~0ul;
	if (syscall(SYS_rt_sigaction, sig, &sa, NULL, sizeof(sa.mask)))
		ut_warn("signal %d of libc cannot be handled: setuid() and the like may hang",
			sig);
}

void libc_signals_setup(void)
{
	static bool done;

	if (*tls_reason() || done)
		return;
	done = true;
	wrap_signal(SIG_FIRST);
	wrap_signal(SIG_FIRST + 1);
}
