/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ksignal.h - signal masks as the kernel has them: one word. libc's functions
 * on signals show the program its own view (signals/), so the runtime asks the
 * kernel itself.
 */
#ifndef UTHREAD_BASE_KSIGNAL_H
#define UTHREAD_BASE_KSIGNAL_H

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KSIG_BIT(sig) (1ull << ((sig) - 1))
/* Raised by an instruction: these cannot wait. */
#define KSIG_FAULTS                                                \
	(KSIG_BIT(SIGSEGV) | KSIG_BIT(SIGBUS) | KSIG_BIT(SIGFPE) | \
	 KSIG_BIT(SIGILL) | KSIG_BIT(SIGTRAP) | KSIG_BIT(SIGSYS))
#define KSIG_LIBC (KSIG_BIT(32) | KSIG_BIT(33)) /* never blocked by programs */
#define KSIG_NEVER (KSIG_BIT(SIGKILL) | KSIG_BIT(SIGSTOP))
#define KSIG_POISON KSIG_BIT(SIGKILL) /* in struct worker's `mask` */

static inline int ksig_mask(int how, const uint64_t *set, uint64_t *old)
{
	return (int)syscall(SYS_rt_sigprocmask, how, set, old, sizeof(*set));
}

static inline uint64_t ksig_word(const sigset_t *set)
{
	uint64_t word;

	memcpy(&word, set, sizeof(word));
	return word;
}

static inline void ksig_set(sigset_t *set, uint64_t word)
{
	memset(set, 0, sizeof(*set));
	memcpy(set, &word, sizeof(word));
}

/* libc's sigaction(), under a name that nobody stands before. */
int __sigaction(int sig, const struct sigaction *sa, struct sigaction *old);

static inline void ksig_default(int sig)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = SIG_DFL;
	__sigaction(sig, &sa, NULL);
}

#endif
