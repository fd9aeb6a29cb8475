/* SPDX-License-Identifier: Apache-2.0 */
/* attr.c - what uthread_create() is to make; the layout behind _u. */
#include "thread/attr.h"

#include <string.h>

_Static_assert(sizeof(struct attr) <= sizeof(uthread_attr_t), "ABI");

static const struct attr defaults = { .magic = ATTR_MAGIC,
				      .worker = UTHREAD_WORKER_ANY };

int uthread_attr_init(uthread_attr_t *attr)
{
	memset(attr, 0, sizeof(*attr));
	memcpy(attr, &defaults, sizeof(defaults));
	return 0;
}

int uthread_attr_destroy(uthread_attr_t *attr)
{
	struct attr *a = attr_of(attr);

	if (!a)
		return EINVAL;
	a->magic = 0;
	return 0;
}

int uthread_attr_setstacksize(uthread_attr_t *attr, size_t bytes)
{
	struct attr *a = attr_of(attr);

	if (!a || bytes < UTHREAD_STACK_MIN || bytes > UTHREAD_STACK_LIMIT)
		return EINVAL;
	a->stack_size = bytes;
	a->class = 0;
	return 0;
}

int uthread_attr_getstacksize(const uthread_attr_t *attr, size_t *bytes)
{
	const struct attr *a = attr_of_const(attr);

	if (!a)
		return EINVAL;
	*bytes = a->stack_size;
	if (!*bytes)
		*bytes = (rt.stack_slot ? rt.stack_slot : STACK_SLOT_DEFAULT) -
			 STACK_OVERHEAD;
	return 0;
}

int uthread_attr_setdetachstate(uthread_attr_t *attr, int state)
{
	struct attr *a = attr_of(attr);

	if (!a || (state != UTHREAD_CREATE_JOINABLE &&
		   state != UTHREAD_CREATE_DETACHED))
		return EINVAL;
	a->detached = state;
	return 0;
}

int uthread_attr_getdetachstate(const uthread_attr_t *attr, int *state)
{
	const struct attr *a = attr_of_const(attr);

	if (!a)
		return EINVAL;
	*state = a->detached;
	return 0;
}

int uthread_attr_setname(uthread_attr_t *attr, const char *name)
{
	struct attr *a = attr_of(attr);

	if (!a)
		return EINVAL;
	return name_copy(a->name, name);
}

int uthread_attr_getname(const uthread_attr_t *attr, char *buf, size_t len)
{
	const struct attr *a = attr_of_const(attr);

	if (!a)
		return EINVAL;
	if (strlen(a->name) >= len)
		return ERANGE;
	strcpy(buf, a->name);
	return 0;
}

int uthread_attr_settls(uthread_attr_t *attr, enum uthread_tls mode)
{
	struct attr *a = attr_of(attr);

	if (!a || (unsigned)mode > UTHREAD_TLS_SHARED)
		return EINVAL;
	a->tls = (int)mode;
	a->class = 0;
	return 0;
}

int uthread_attr_gettls(const uthread_attr_t *attr, enum uthread_tls *mode)
{
	const struct attr *a = attr_of_const(attr);

	if (!a)
		return EINVAL;
	*mode = (enum uthread_tls)a->tls;
	return 0;
}

int uthread_attr_setworker(uthread_attr_t *attr, int worker)
{
	struct attr *a = attr_of(attr);

	if (!a || worker < UTHREAD_WORKER_ANY || worker >= WORKERS_MAX)
		return EINVAL;
	a->worker = worker;
	return 0;
}

int uthread_attr_getworker(const uthread_attr_t *attr, int *worker)
{
	const struct attr *a = attr_of_const(attr);

	if (!a)
		return EINVAL;
	*worker = a->worker;
	return 0;
}

int uthread_attr_setpriority(uthread_attr_t *attr, int priority)
{
	struct attr *a = attr_of(attr);

	if (!a || priority < 0 || priority >= UTHREAD_PRIORITIES)
		return EINVAL;
	a->priority = priority;
	return 0;
}

int uthread_attr_getpriority(const uthread_attr_t *attr, int *priority)
{
	const struct attr *a = attr_of_const(attr);

	if (!a)
		return EINVAL;
	*priority = a->priority;
	return 0;
}

int uthread_attr_setweight(uthread_attr_t *attr, unsigned weight)
{
	struct attr *a = attr_of(attr);

	if (!a || weight < 1 || weight > UTHREAD_WEIGHT_MAX)
		return EINVAL;
	a->weight = weight;
	return 0;
}

int uthread_attr_getweight(const uthread_attr_t *attr, unsigned *weight)
{
	const struct attr *a = attr_of_const(attr);

	if (!a)
		return EINVAL;
	*weight = a->weight ? a->weight : WEIGHT_DEFAULT;
	return 0;
}
