/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_stack.c - a TLS block says which stack its thread has.
 *
 * glob(), getaddrinfo(), printf() and others of libc put what is long into an
 * array on the stack or into malloc's memory, by the size of the stack that
 * struct pthread names: up to a quarter of it, 64 KiB at most. None is main's,
 * so that a stack of 16 KiB overflows. And longjmp() compares the frames it
 * passes by their distance from the stack's end.
 *
 * There is no symbol for these words. They are looked for on a real pthread, by
 * what libc says of its stack; where they are not found blocks name none.
 *
 * Two who walk glibc's lists use them for more: they make stacks executable, and
 * take those of the parent's threads for their own in the child of a fork. Both
 * pass over threads that brought their stacks along, as which blocks are listed
 * (listed.c).
 */
#include "stack/stack.h"
#include "tls/tls.h"

/* In struct pthread. */
struct own_stack {
	uintptr_t low;
	size_t bytes, guard; /* the one with the other */
	size_t asked_guard;
};

static size_t off; /* in struct pthread; 0: not found */

const char *own_stack_setup(const char *pd, const char *no_memory)
{
	size_t i, n = tls_layout.pthread_size, bytes, guard;
	const struct own_stack *s;
	pthread_attr_t attr;
	void *low;
	int err = pthread_getattr_np(pthread_self(), &attr);

	if (err)
		return err == ENOMEM ? no_memory : NULL;
	pthread_attr_getstack(&attr, &low, &bytes);
	pthread_attr_getguardsize(&attr, &guard);
	pthread_attr_destroy(&attr);
	for (i = sizeof(void *); i + sizeof(*s) <= n; i += sizeof(void *)) {
		s = (const struct own_stack *)(const void *)(pd + i);
		if (s->low && s->guard < bytes &&
		    s->low + s->guard == (uintptr_t)low &&
		    s->bytes == bytes + s->guard && s->asked_guard == guard)
			off = i;
	}
	return NULL;
}

void own_stack_is(uintptr_t tp, const char *low, const char *top)
{
	struct own_stack *s;

	if (!off)
		return;
	s = (struct own_stack *)(tp - tls_layout.pd_before_tp + off);
	s->low = (uintptr_t)low;
	s->bytes = (size_t)(top - low);
	s->guard = s->asked_guard = stack_page();
}
