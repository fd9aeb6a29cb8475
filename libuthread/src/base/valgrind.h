/* SPDX-License-Identifier: Apache-2.0 */
/*
 * valgrind.h - what Valgrind must be told: which memory is a stack, and which
 * call is no error. It takes a stack pointer that jumps by less than 2 MB for one
 * stack that has grown, and what lies between for its contents, or for garbage.
 *
 * A request is a handful of instructions that change nothing and that Valgrind
 * knows when it sees them (its own valgrind.h has the same ones); the answer is
 * the default everywhere else.
 */
#ifndef UTHREAD_BASE_VALGRIND_H
#define UTHREAD_BASE_VALGRIND_H

#include <stddef.h>
#include <stdint.h>

#define VALGRIND_RUNNING 0x1001
#define VALGRIND_STACK_REGISTER 0x1501
#define VALGRIND_STACK_DEREGISTER 0x1502
#define VALGRIND_ERRORS_OFF 0x1801 /* by 1 more or, with -1, less */

static inline uintptr_t valgrind_request(uintptr_t what, uintptr_t a,
					 uintptr_t b)
{
	uintptr_t words[6] = { what, a, b };
	uintptr_t answer = 0;

#if defined(__x86_64__)
	__asm__ volatile("rolq $3, %%rdi\n\t"
			 "rolq $13, %%rdi\n\t"
			 "rolq $61, %%rdi\n\t"
			 "rolq $51, %%rdi\n\t"
			 "xchgq %%rbx, %%rbx"
			 : "+d"(answer)
			 : "a"(words)
			 : "cc", "memory");
#else
	__asm__ volatile("mov x3, %0\n\t"
			 "mov x4, %1\n\t"
			 "ror x12, x12, #3\n\t"
			 "ror x12, x12, #13\n\t"
			 "ror x12, x12, #51\n\t"
			 "ror x12, x12, #61\n\t"
			 "orr x10, x10, x10\n\t"
			 "mov %0, x3"
			 : "+r"(answer)
			 : "r"(words)
			 : "cc", "memory", "x3", "x4");
#endif
	return answer;
}

static inline int valgrind_running(void)
{
	return valgrind_request(VALGRIND_RUNNING, 0, 0) != 0;
}

/* Its number, for when it is gone. */
static inline uintptr_t valgrind_stack(const void *low, size_t bytes)
{
	return valgrind_request(VALGRIND_STACK_REGISTER, (uintptr_t)low,
				(uintptr_t)low + bytes - 1);
}

static inline void valgrind_stack_gone(uintptr_t number)
{
	valgrind_request(VALGRIND_STACK_DEREGISTER, number, 0);
}

/* Between the two this kernel thread says nothing of what it finds. */
static inline void valgrind_errors_off(void)
{
	valgrind_request(VALGRIND_ERRORS_OFF, 1, 0);
}

static inline void valgrind_errors_on(void)
{
	valgrind_request(VALGRIND_ERRORS_OFF, (uintptr_t)-1, 0);
}

#endif
