/* SPDX-License-Identifier: Apache-2.0 */
/* small_thread.h - a pthread of the runtime's own. */
#ifndef UTHREAD_BASE_SMALL_THREAD_H
#define UTHREAD_BASE_SMALL_THREAD_H

#include <pthread.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

/* Detached, with so small a stack, or the usual one where TLS is too large for that. It
 * has the caller's mask. 0, or as pthread_create() says. */
int small_thread(pthread_t *t, void *(*fn)(void *), void *arg,
		 size_t stack_bytes);

#pragma GCC visibility pop

#endif
