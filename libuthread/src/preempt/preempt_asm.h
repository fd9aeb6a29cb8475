/* SPDX-License-Identifier: Apache-2.0 */
/* preempt_asm.h - offsets preempt.S needs; proved in preempt.c. */
#ifndef UTHREAD_PREEMPT_ASM_H
#define UTHREAD_PREEMPT_ASM_H

#define HERE_WORKER 8 /* struct here: worker */
#define HERE_SELF 0 /* struct here: self */
#define WORKER_ALTSTACK 24 /* struct worker: altstack */
#define WORKER_MASK 32 /* struct worker: mask */
#define WORKER_POISON 40 /* struct worker: poison */
#define UTHREAD_MASK 56 /* struct uthread: mask */
#define UTHREAD_RAISED 384 /* struct uthread: raised */
#define UC_ALTSTACK 16 /* ucontext_t: uc_stack.ss_sp */
#if defined(__x86_64__)
#define UC_SIGMASK 296 /* ucontext_t: uc_sigmask */
#else
#define UC_SIGMASK 40
#endif

#endif
