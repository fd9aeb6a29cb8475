/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overflow.c - a stack overflow ends the process with a line that says whose.
 *
 * A write below a stack hits its guard page and raises SIGSEGV, which runs
 * on the worker's alternate stack. If the address lies in the guard of the
 * uthread that ran, its name, entry function, stack size and what to change
 * are printed and the signal takes its default course (core dump). Any other
 * fault goes to the handler that was there before.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"
#include "san.h"

#define ALTSTACK_MIN (64u << 10)

static struct sigaction previous;
static bool installed;

static void report(const struct uthread *ut, const void *addr)
{
	size_t usable = (size_t)(ut->stack_top - ut->stack_low);
	char entry[160];
	Dl_info info;

	if (dladdr(*(void *const *)&ut->fn, &info) && info.dli_sname)
		snprintf(entry, sizeof(entry), "%s()", info.dli_sname);
	else if (info.dli_fname)
		snprintf(entry, sizeof(entry), "%p (%s+0x%lx)",
			 *(void *const *)&ut->fn, info.dli_fname,
			 (unsigned long)((char *)*(void *const *)&ut->fn -
					 (char *)info.dli_fbase));
	else
		snprintf(entry, sizeof(entry), "%p", *(void *const *)&ut->fn);
	ut_warn("stack overflow in uthread '%s' (id %u), entry %s, at %p: its stack of %zu KiB is used up; give it more with uthread_attr_setstacksize() or UTHREAD_STACK_SIZE",
		ut->name[0] ? ut->name : "(no name)", ut->id, entry, addr,
		usable >> 10);
}

static void pass_on(int sig, siginfo_t *si, void *uc)
{
	if (previous.sa_flags & SA_SIGINFO) {
		previous.sa_sigaction(sig, si, uc);
	} else if (previous.sa_handler != SIG_DFL &&
		   previous.sa_handler != SIG_IGN) {
		previous.sa_handler(sig);
	} else {
		/* Returning repeats the fault, now with the default action. */
		signal(sig, SIG_DFL);
		if (si->si_code <= 0)
			raise(sig); /* sent by kill(): it does not repeat */
	}
}

static void on_segv(int sig, siginfo_t *si, void *uc)
{
	const struct uthread *ut = uthread_current();
	const char *addr = si->si_addr;

	if (ut && si->si_code > 0 && addr >= ut->slot &&
	    addr < ut->stack_low) {
		report(ut, addr);
		signal(sig, SIG_DFL);
		return;
	}
	pass_on(sig, si, uc);
}

void overflow_setup(void)
{
	struct sigaction sa = { .sa_sigaction = on_segv,
				.sa_flags = SA_SIGINFO | SA_ONSTACK };

	if (UTHREAD_ASAN || installed)
		return; /* ASan says it better */
	sigemptyset(&sa.sa_mask);
	installed = !sigaction(SIGSEGV, &sa, &previous);
}

int overflow_worker_setup(struct worker *w)
{
	size_t bytes = ALTSTACK_MIN;
	stack_t ss = { 0 };

	if (UTHREAD_ASAN)
		return 0;
	if ((size_t)sysconf(_SC_SIGSTKSZ) > bytes)
		bytes = (size_t)sysconf(_SC_SIGSTKSZ);
	w->altstack = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (w->altstack == MAP_FAILED)
		return EAGAIN;
	ss.ss_sp = w->altstack;
	ss.ss_size = bytes;
	return sigaltstack(&ss, NULL) ? EAGAIN : 0;
}
