/* SPDX-License-Identifier: Apache-2.0 */
/* preempt_asm.h - offsets preempt.S needs; proved in preempt.c. */
#ifndef UTHREAD_PREEMPT_ASM_H
#define UTHREAD_PREEMPT_ASM_H

#define HERE_WORKER 8 /* struct here: worker */
#define WORKER_ALTSTACK 24 /* struct worker: altstack */
#define UC_ALTSTACK 16 /* ucontext_t: uc_stack.ss_sp */

#endif
