/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - what a uthread is made of, and handlers around a fork. */
#include "sched/ask.h"
#include "thread/attr.h"

/* process/fork.c stands before libc's; whose handlers these are: the runtime's, as
 * it cannot know whose code called. */
int __register_atfork(void (*prepare)(void), void (*parent)(void),
		      void (*child)(void), void *dso);
extern void *__dso_handle __attribute__((visibility("hidden")));

int uthread_atfork(void (*prepare)(void), void (*parent)(void),
		   void (*child)(void))
{
	return __register_atfork(prepare, parent, child, &__dso_handle);
}

int uthread_getattr(uthread_t thread, uthread_attr_t *attr)
{
	uintptr_t join = thread ? load_acquire(&thread->join) : JOIN_GONE;
	struct attr *a;
	int bound;

	if (join == JOIN_GONE)
		return ESRCH;
	uthread_attr_init(attr);
	a = attr_of(attr);
	a->stack_size = (uint64_t)(thread->stack_top - thread->stack_low);
	a->class = thread->class;
	a->detached = join == JOIN_DETACHED ? UTHREAD_CREATE_DETACHED :
					      UTHREAD_CREATE_JOINABLE;
	name_read(a->name, thread->name);
	a->tls = load_relaxed(&thread->flags) & UT_OWN_TLS ? UTHREAD_TLS_OWN :
							     UTHREAD_TLS_SHARED;
	bound = load_relaxed(&thread->bound);
	if (bound >= 0 && !(load_relaxed(&thread->flags) & UT_AFFINE))
		a->worker = rt.workers[bound]->number;
	a->priority = load_relaxed(&thread->priority);
	a->weight = load_relaxed(&thread->weight);
	return 0;
}
