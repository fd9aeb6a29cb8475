/* SPDX-License-Identifier: Apache-2.0 */
/* small_thread.c - a pthread of the runtime's own, whose stack need not be the program's
 * usual one. */
#include "base/small_thread.h"

#include <errno.h>

int small_thread(pthread_t *t, void *(*fn)(void *), void *arg,
		 size_t stack_bytes)
{
	pthread_attr_t attr;
	size_t usual = 0;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_getstacksize(&attr, &usual);
	pthread_attr_setstacksize(&attr, stack_bytes);
	err = pthread_create(t, &attr, fn, arg);
	if (err == EINVAL) { /* where TLS is large */
		pthread_attr_setstacksize(&attr, usual);
		err = pthread_create(t, &attr, fn, arg);
	}
	pthread_attr_destroy(&attr);
	return err;
}
