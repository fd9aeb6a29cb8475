/* SPDX-License-Identifier: Apache-2.0 */
/*
 * san.h - what AddressSanitizer must be told about stacks and switches.
 *
 * Everything here is empty in a build without sanitizers. Protocol around
 * one switch from stack A to stack B:
 *
 *	on A: san_switch_start(&A_fake, B_low, B_size)   NULL when A ends
 *	context_switch(A, B)
 *	on B: san_switch_finish(B_fake)                  NULL on first entry
 *
 * UTHREAD_ASAN is 1 in an ASan build. Own TLS is off there: ASan finds its
 * thread record through pthread-specific data of the carrier.
 */
#ifndef UTHREAD_SAN_H
#define UTHREAD_SAN_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define UTHREAD_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UTHREAD_ASAN 1
#endif
#endif
#ifndef UTHREAD_ASAN
#define UTHREAD_ASAN 0
#endif

#if UTHREAD_ASAN
void __sanitizer_start_switch_fiber(void **fake, const void *low, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **low,
				     size_t *size);
void __asan_unpoison_memory_region(const volatile void *addr, size_t size);
#endif

/* `fake` is where the left stack keeps its fake stack, NULL: it ends. */
static inline void san_switch_start(void **fake, const void *low, size_t size)
{
#if UTHREAD_ASAN
	__sanitizer_start_switch_fiber(fake, low, size);
#else
	(void)fake;
	(void)low;
	(void)size;
#endif
}

static inline void san_switch_finish(void *fake)
{
#if UTHREAD_ASAN
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
#else
	(void)fake;
#endif
}

/* As finish, and tells where the stack that was left lies. */
static inline void san_switch_finish_from(void *fake, const void **low,
					  size_t *size)
{
#if UTHREAD_ASAN
	__sanitizer_finish_switch_fiber(fake, low, size);
#else
	(void)fake;
	(void)low;
	(void)size;
#endif
}

/* A stack is about to be used by somebody else: forget old redzones. */
static inline void san_stack_fresh(const void *low, size_t size)
{
#if UTHREAD_ASAN
	__asan_unpoison_memory_region(low, size);
#else
	(void)low;
	(void)size;
#endif
}

#endif
