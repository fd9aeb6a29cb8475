/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread_keys.c - thread-specific data of libraries: the destructors of
 * pthread keys are remembered, to run at a uthread's end.
 */
#include <limits.h>

#include "base/interpose.h"
#include "base/san.h"
#include "tls/tls.h"

static void (*key_destructor[PTHREAD_KEYS_MAX])(void *);
static uint32_t key_limit; /* keys below it may have a destructor */

#if !UTHREAD_TSAN /* which calls it first of all, and there is no own TLS */
EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	static int (*next)(pthread_key_t *, void (*)(void *));
	uint32_t limit;
	int err;

	if (!next)
		NEXT(next, "pthread_key_create");
	err = next(key, destructor);
	if (err || *key >= PTHREAD_KEYS_MAX)
		return err;
	store_release(&key_destructor[*key], destructor);
	limit = load_relaxed(&key_limit);
	while (destructor && limit <= *key &&
	       !__atomic_compare_exchange_n(&key_limit, &limit, *key + 1, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return 0;
}

EXPORT int pthread_key_delete(pthread_key_t key)
{
	static int (*next)(pthread_key_t);

	if (!next)
		NEXT(next, "pthread_key_delete");
	if (key < PTHREAD_KEYS_MAX)
		store_release(&key_destructor[key], NULL);
	return next(key);
}
#endif

/* As at the end of a pthread. Runs on the uthread's own TLS. */
void pthread_keys_end(void)
{
	uint32_t limit = load_acquire(&key_limit), key;
	void (*destructor)(void *);
	int round;
	bool again = limit > 0;
	void *v;

	for (round = 0; again && round < PTHREAD_DESTRUCTOR_ITERATIONS;
	     round++) {
		again = false;
		for (key = 0; key < limit; key++) {
			destructor = load_acquire(&key_destructor[key]);
			if (!destructor)
				continue;
			v = pthread_getspecific(key);
			if (!v)
				continue;
			pthread_setspecific(key, NULL);
			destructor(v);
			again = true;
		}
	}
}
