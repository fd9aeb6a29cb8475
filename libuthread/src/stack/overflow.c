/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overflow.c - a stack overflow ends the process with a line that says whose.
 *
 * A write below a stack hits its guard page and raises SIGSEGV, which runs
 * on the worker's alternate stack. If the address lies in the guard of the
 * uthread that ran, its name, entry function, stack size and what to change
 * are printed and the signal takes its default course (core dump); but for a
 * program that is prepared for it, by a handler and an alternate stack of the
 * uthread's: a crash reporter, or a language that makes an error of it. The same
 * for a coroutine; a plain pthread gets an alternate stack for as long as it
 * has a scheduler, unless it has one already. A stack that is called before
 * it is executable may have to be now (exec.c). Any other fault goes to the
 * handler that was there before.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/ksignal.h"
#include "base/san.h"
#include "stack/stack.h"

#define ALTSTACK_MIN (64u << 10)

static struct sigaction previous;
static uint32_t installed;

bool (*overflow_of_coroutine)(const char *addr, void **fn, size_t *usable);
bool (*overflow_fault)(int sig, siginfo_t *si, void *uc);
bool (*overflow_awaited)(int sig, const void *uc);

static void name_entry(char *buf, size_t room, void *fn)
{
	Dl_info info = { 0 };

	if (dladdr(fn, &info) && info.dli_sname)
		snprintf(buf, room, "%s()", info.dli_sname);
	else if (info.dli_fname)
		snprintf(buf, room, "%p (%s+0x%lx)", fn, info.dli_fname,
			 (unsigned long)((char *)fn - (char *)info.dli_fbase));
	else
		snprintf(buf, room, "%p", fn);
}

static void report(const struct uthread *ut, const void *addr)
{
	size_t usable = (size_t)(ut->stack_top - ut->stack_low);
	char entry[160];

	name_entry(entry, sizeof(entry), *(void *const *)&ut->fn);
	ut_warn("stack overflow in uthread '%s' (id %u), entry %s, at %p: its stack of %zu KiB is used up; give it more with uthread_attr_setstacksize() or UTHREAD_STACK_SIZE",
		ut->name[0] ? ut->name : "(no name)", ut->id, entry, addr,
		usable >> 10);
}

static void report_coroutine(void *fn, size_t usable, const void *addr)
{
	char entry[160];

	name_entry(entry, sizeof(entry), fn);
	ut_warn("stack overflow in a coroutine, entry %s, at %p: its stack of %zu KiB is used up; give it more with stack_size in struct coroutine_attr or coroutine_config",
		entry, addr, usable >> 10);
}

/* The action that was there first, where nobody keeps the program's. */
static bool previous_takes(int sig, siginfo_t *si, void *uc)
{
	if (previous.sa_flags & SA_SIGINFO) {
		previous.sa_sigaction(sig, si, uc);
		return true;
	}
	if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN)
		return false;
	previous.sa_handler(sig);
	return true;
}

/*
 * The action is the program's, and it may have changed it since: a handler that puts
 * the default action back and raises the signal again is not to get it once more.
 */
static void pass_on(int sig, siginfo_t *si, void *uc)
{
	const bool taken = overflow_fault ? overflow_fault(sig, si, uc) :
					    previous_takes(sig, si, uc);

	if (!taken) {
		/* Returning repeats the fault, now with the default action. */
		ksig_default(sig);
		if (si->si_code <= 0) /* sent by kill(): it does not repeat */
			syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
	}
}

static uintptr_t pc_of(const void *ucp)
{
	const ucontext_t *uc = ucp;

#if defined(__x86_64__)
	return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#else
	return (uintptr_t)uc->uc_mcontext.pc;
#endif
}

HANDLER static void on_segv(int sig, siginfo_t *si, void *uc)
{
	const struct uthread *ut = uthread_current();
	const char *addr = si->si_addr;
	size_t usable;
	void *fn;

	if (si->si_code > 0 && overflow_of_coroutine &&
	    overflow_of_coroutine(addr, &fn, &usable)) {
		report_coroutine(fn, usable, addr);
		ksig_default(sig);
		return;
	}
	if (ut && si->si_code > 0 && addr >= ut->slot && addr < ut->stack_low &&
	    !(overflow_awaited && overflow_awaited(sig, uc))) {
		report(ut, addr);
		ksig_default(sig);
		return;
	}
	/* Code on a stack: its own fault, so it holds no lock of the loader's
	 * but as a constructor, which may ask it anything. */
	if (si->si_code == SEGV_ACCERR && (uintptr_t)addr == pc_of(uc) &&
	    stack_exec_follow())
		return;
	pass_on(sig, si, uc);
}

void overflow_setup(void)
{
	struct sigaction sa = { .sa_sigaction = on_segv,
				.sa_flags = SA_SIGINFO | SA_ONSTACK };

	/* ASan says it better. */
	if (UTHREAD_ASAN ||
	    __atomic_exchange_n(&installed, 1, __ATOMIC_ACQ_REL))
		return;
	/* A handler on the worker's stack for them is interrupted by none. */
	ksig_set(&sa.sa_mask, ~KSIG_FAULTS);
	if (__sigaction(SIGSEGV, &sa, &previous))
		store_release(&installed, 0);
}

bool overflow_is_ours(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO && sa->sa_sigaction == on_segv;
}

const struct sigaction *overflow_previous(void)
{
	return &previous;
}

static int set_altstack(const stack_t *ss, stack_t *old)
{
	return (int)syscall(SYS_sigaltstack, ss, old);
}

/* NULL: no memory. Handlers run on it from now on, in this kernel thread. */
static void *altstack_new(size_t *room)
{
	size_t bytes = ALTSTACK_MIN;
	stack_t ss = { 0 };
	void *p;

	if ((size_t)sysconf(_SC_SIGSTKSZ) > bytes)
		bytes = (size_t)sysconf(_SC_SIGSTKSZ);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	ss.ss_sp = p;
	ss.ss_size = bytes;
	if (set_altstack(&ss, NULL)) {
		munmap(p, bytes);
		return NULL;
	}
	*room = bytes;
	return p;
}

int overflow_worker_setup(struct worker *w)
{
	if (UTHREAD_ASAN)
		return 0;
	w->altstack = altstack_new(&w->altstack_size);
	return w->altstack ? 0 : EAGAIN;
}

void overflow_worker_end(struct worker *w)
{
	const stack_t none = { .ss_flags = SS_DISABLE };

	if (!w->altstack)
		return;
	set_altstack(&none, NULL);
	overflow_worker_forked(w);
}

void overflow_worker_forked(struct worker *w)
{
	void *stack = w->altstack;

	/* First: a fork by another copies what is there meanwhile. */
	store_relaxed(&w->altstack, NULL);
	if (stack)
		munmap(stack, w->altstack_size);
}

/* ---- plain pthreads that have coroutines ---- */

static __thread struct {
	void *altstack; /* ours, NULL: the thread had one, or got none */
	size_t bytes;
	unsigned users; /* schedulers */
} plain __attribute__((tls_model("initial-exec")));

void overflow_pthread_get(void)
{
	stack_t now;

	if (UTHREAD_ASAN || uthread_current() || plain.users++)
		return;
	/* Without one an overflow is a SIGSEGV all the same, only silent. */
	if (!set_altstack(NULL, &now) && now.ss_flags & SS_DISABLE)
		plain.altstack = altstack_new(&plain.bytes);
}

void overflow_pthread_put(void)
{
	stack_t now, none = { .ss_flags = SS_DISABLE };

	if (UTHREAD_ASAN || uthread_current() || --plain.users ||
	    !plain.altstack)
		return;
	/* Somebody may have put another in its place. */
	if (!set_altstack(NULL, &now) && now.ss_sp == plain.altstack)
		set_altstack(&none, NULL);
	munmap(plain.altstack, plain.bytes);
	plain.altstack = NULL;
}
