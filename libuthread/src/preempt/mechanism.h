/* SPDX-License-Identifier: Apache-2.0 */
/* mechanism.h - how a tick takes the CPU from who was interrupted. */
#ifndef UTHREAD_PREEMPT_MECHANISM_H
#define UTHREAD_PREEMPT_MECHANISM_H

#include <signal.h>
#include <ucontext.h>

#include "base/config.h"
#include "base/nouns.h"

#define RED_ZONE 128

#if defined(__x86_64__)
#define UC_PC(uc) ((uc)->uc_mcontext.gregs[REG_RIP])
#define UC_SP(uc) ((uc)->uc_mcontext.gregs[REG_RSP])
#else
#define UC_PC(uc) ((uc)->uc_mcontext.pc)
#define UC_SP(uc) ((uc)->uc_mcontext.sp)
#endif

/* ENOTSUP: not on this processor. */
int mechanism_setup(enum uthread_preempt wanted);
/* Bytes of stack below the red zone for the state of who was interrupted. */
size_t mechanism_bytes(const struct worker *w, const siginfo_t *si,
		       const ucontext_t *uc);
/* Is that code of ours which saves or restores such a state? */
bool mechanism_at_work(uintptr_t pc);
/* A handler of the program's interrupted the last steps to a sigreturn: they
 * are begun again, for they know the worker. */
void mechanism_rewind(ucontext_t *uc);
/* The kernel's frame on the worker's alternate stack, copied to below `top`. */
char *mechanism_copy_frame(const struct worker *w, const siginfo_t *si,
			   const ucontext_t *uc, uintptr_t top);
ptrdiff_t mechanism_frame_moved(const char *copy, const siginfo_t *si,
				const ucontext_t *uc);
/* The handler's return goes to preempt_now(), on the uthread's stack. */
void mechanism_leave(struct worker *w, const siginfo_t *si, ucontext_t *uc);
/* It was interrupted in a call that is begun anew when it goes on, and left by a frame
 * that has this UC_SP(): now the call ends with EINTR. */
void mechanism_end_call(uintptr_t sp);

#endif
