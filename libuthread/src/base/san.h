/* SPDX-License-Identifier: Apache-2.0 */
/*
 * san.h - what AddressSanitizer and ThreadSanitizer must be told about stacks
 * and switches.
 *
 * Everything here is empty in a build without sanitizers. Protocol around
 * one switch from stack A to stack B:
 *
 *	on A: san_switch_start(&A_busy, &A_fake, B_fake, B_low, B_size)
 *		&A_fake is NULL when A ends
 *	context_switch(A, B)
 *	on B: san_switch_finish(B_fake)			NULL on first entry
 *
 * `fake` is ASan's fake stack of one that is left. TSan takes each stack for a
 * thread of its own, a fiber, and there `fake` is the fiber: san_fiber_new()
 * makes it before the first entry. That the assembly clears `busy` with
 * release it does not see: it is told.
 *
 * UTHREAD_ASAN, UTHREAD_TSAN: 1 in such a build; UTHREAD_SAN: in either. Own
 * TLS is off there: ASan finds its thread record through pthread-specific data
 * of the carrier, TSan in a thread-local variable. So are ticks: both have
 * locks of their own, and TSan keeps signals for later.
 *
 * TSan has no word for fences. None is needed for it: what is handed over
 * by way of a bias lock (spin.h) is published with release and taken with
 * acquire as well; the fences only keep two from being inside at once.
 */
#ifndef UTHREAD_SAN_H
#define UTHREAD_SAN_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define UTHREAD_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define UTHREAD_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UTHREAD_ASAN 1
#elif __has_feature(thread_sanitizer)
#define UTHREAD_TSAN 1
#endif
#endif
#ifndef UTHREAD_ASAN
#define UTHREAD_ASAN 0
#endif
#ifndef UTHREAD_TSAN
#define UTHREAD_TSAN 0
#endif
#define UTHREAD_SAN (UTHREAD_ASAN || UTHREAD_TSAN)

#if UTHREAD_ASAN
void __sanitizer_start_switch_fiber(void **fake, const void *low, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **low,
				     size_t *size);
void __asan_unpoison_memory_region(const volatile void *addr, size_t size);
#endif
#if UTHREAD_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_release(void *addr);
#endif

/* A function that looks at what others write meanwhile, and says so: TSan is not to
 * see it. */
#if UTHREAD_TSAN
#define SAN_GLANCES __attribute__((no_sanitize("thread")))
#else
#define SAN_GLANCES
#endif

/* `fake` is where the left stack keeps its own, NULL: it ends. `busy` is what
 * the switch will clear, if anything. */
static inline void san_switch_start(void *busy, void **fake, void *to_fake,
				    const void *low, size_t size)
{
#if UTHREAD_ASAN
	(void)busy;
	(void)to_fake;
	__sanitizer_start_switch_fiber(fake, low, size);
#elif UTHREAD_TSAN
	(void)low;
	(void)size;
	if (fake)
		*fake = __tsan_get_current_fiber();
	if (busy)
		__tsan_release(busy);
	__tsan_switch_to_fiber(to_fake, 0);
#else
	(void)busy;
	(void)fake;
	(void)to_fake;
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

static inline void san_fiber_end(void **fiber)
{
#if UTHREAD_TSAN
	if (*fiber)
		__tsan_destroy_fiber(*fiber);
	*fiber = NULL;
#else
	(void)fiber;
#endif
}

/* For a stack that nobody is on: a new fiber, after the one it had. */
static inline void san_fiber_new(void **fiber)
{
	san_fiber_end(fiber);
#if UTHREAD_TSAN
	*fiber = __tsan_create_fiber(0);
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
