// SPDX-License-Identifier: Apache-2.0
/* stranger.c - what libraries ask of pthreads: a key, and their own stack. */
#include <pthread.h>
#include <stddef.h>

#include "stranger.h"

static pthread_key_t key;

int stranger_key(void (*destructor)(void *))
{
	return pthread_key_create(&key, destructor);
}

int stranger_set(void *value)
{
	return pthread_setspecific(key, value);
}

int stranger_stack(void **low, size_t *bytes)
{
	pthread_attr_t attr;
	int err = pthread_getattr_np(pthread_self(), &attr);

	if (err)
		return err;
	err = pthread_attr_getstack(&attr, low, bytes);
	pthread_attr_destroy(&attr);
	return err;
}
