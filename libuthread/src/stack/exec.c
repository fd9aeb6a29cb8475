/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - are stacks executable?
 *
 * GCC's nested functions, called by address, are reached by a few instructions
 * that the compiler puts on the stack. An object with such a function asks for
 * executable stacks, by the flags of its PT_GNU_STACK segment, and libc gives
 * all pthreads such stacks: from the start if the program or a library of it
 * asks, and those that exist become executable when a library that asks is
 * opened later. Ours follow. Nobody asks as a rule, and then no stack is.
 *
 * Before dlopen() returns a library's constructors have run already: what they
 * put on the stack faults when it is called, and the handler of SIGSEGV
 * (overflow.c) looks again.
 *
 * Rejected: libc's own word for it (_dl_stack_flags has a name for nobody);
 * executable stacks for all (a gift to whoever can write to one).
 */
#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/objects.h"
#include "stack/stack.h"

/* What libc takes an object for that says nothing. */
#if defined(__x86_64__)
#define SILENT_FLAGS PF_X
#else
#define SILENT_FLAGS 0
#endif

static struct {
	uint32_t prot; /* atomic; 0: nobody has asked yet */
	uint32_t all; /* atomic: those that were mapped without are, too */
	uint32_t refused; /* atomic: the kernel does not allow it; said once */
} ex;

static int scan(struct dl_phdr_info *info, size_t size, void *name)
{
	ElfW(Word) flags = SILENT_FLAGS;
	int i;

	(void)size;
	/* The kernel's own, which libc does not ask either. */
	if (info->dlpi_addr == getauxval(AT_SYSINFO_EHDR))
		return 0;
	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_STACK)
			flags = info->dlpi_phdr[i].p_flags;
	*(const char **)name = info->dlpi_name;
	return flags & PF_X ? 1 : 0;
}

/* Does any object ask for it, and which? */
static const char *who_asks(void)
{
	const char *name = NULL;

	if (!objects_each(scan, &name))
		return NULL;
	return name && *name ? name : "the program";
}

int stack_prot(void)
{
	uint32_t prot = load_acquire(&ex.prot);

	if (likely(prot))
		return (int)prot;
	prot = PROT_READ | PROT_WRITE;
	if (!load_relaxed(&ex.refused) && who_asks())
		prot |= PROT_EXEC;
	/* Or: who opens a library meanwhile may have been quicker. */
	return (int)__atomic_or_fetch(&ex.prot, prot, __ATOMIC_ACQ_REL);
}

void stack_exec_refused(void)
{
	const char *name = who_asks();
	const int err = errno;

	__atomic_and_fetch(&ex.prot, ~(uint32_t)PROT_EXEC, __ATOMIC_ACQ_REL);
	if (__atomic_exchange_n(&ex.refused, 1, __ATOMIC_ACQ_REL))
		return;
	errno = err;
	ut_warn("%s asks for executable stacks and the system refuses them (%m): nested functions that are called by address will crash",
		name ? name : "the program");
}

bool stack_exec_follow(void)
{
	int saved = errno;

	if (!load_relaxed(&ex.prot) || load_acquire(&ex.all) ||
	    load_relaxed(&ex.refused) || !who_asks())
		return false;
	__atomic_or_fetch(&ex.prot, PROT_EXEC, __ATOMIC_ACQ_REL);
	if (!stacks_protect())
		stack_exec_refused();
	/* Last: who finds it set goes on to call what is on its stack. */
	store_release(&ex.all, 1);
	errno = saved;
	return true;
}
