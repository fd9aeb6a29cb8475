/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threads.c - pthread_create() makes a uthread; join, detach, cancel.
 *
 * A pthread_t is the address of struct pthread, in the uthread's own TLS block; what
 * is none of a uthread goes to glibc. So do threads that bring their stack along, ask
 * for a real-time policy, or for more stack than a uthread can have, and one that an
 * allocator begins very early: these are glibc's, and may use all objects with uthreads.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libc.h"

#define STACK_MAX (1ul << 30) /* uthread_attr_setstacksize() */
/* Of a slot, which is a power of two, not stack: what glibc too takes of the size
 * asked for. Small stacks are given whole. */
#define SLOT_SHARE (16ul << 10)
#define SMALL_STACK (256ul << 10)
/* Of what pthread_getattr_np() tells, as glibc's. */
#define STACK_UNIT 64ul

/* ---- what is asked for ---- */

/* What nobody has to remember. */
static size_t usual_stack, usual_guard;
static bool begun; /* this library's constructor has run */

__attribute__((constructor)) static void look_at_start(void)
{
	pthread_attr_t attr;

	begun = true;
	if (pthread_getattr_default_np(&attr))
		return;
	pthread_attr_getstacksize(&attr, &usual_stack);
	pthread_attr_getguardsize(&attr, &usual_guard);
	pthread_attr_destroy(&attr);
}

static void ask_sizes(const pthread_attr_t *attr, struct told *to)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t stack, guard;

	pthread_attr_getstacksize(attr, &stack);
	pthread_attr_getguardsize(attr, &guard);
	to->stack = stack == usual_stack ? 0 : stack & -STACK_UNIT;
	to->guard = guard == usual_guard ? 0 : ((guard + page - 1) & -page) + 1;
}

/* False: glibc has to make it. */
static bool translate(const pthread_attr_t *attr, uthread_attr_t *to,
		      struct told *told)
{
	struct sched_param param;
	char name[UTHREAD_NAME_MAX];
	int state, inherits, policy;
	size_t bytes;
	void *low;

	if (pthread_attr_getstack(attr, &low, &bytes) ||
	    (uintptr_t)low + bytes != 0)
		return false;
	if (pthread_attr_getinheritsched(attr, &inherits) ||
	    pthread_attr_getschedpolicy(attr, &policy) ||
	    pthread_attr_getschedparam(attr, &param))
		return false;
	if (inherits == PTHREAD_EXPLICIT_SCHED &&
	    (policy != SCHED_OTHER || param.sched_priority))
		return false;
	pthread_attr_getdetachstate(attr, &state);
	pthread_attr_getstacksize(attr, &bytes);
	if (bytes > STACK_MAX)
		return false;
	if (bytes >= SMALL_STACK)
		bytes -= SLOT_SHARE;
	uthread_attr_init(to);
	uthread_attr_setdetachstate(to, state == PTHREAD_CREATE_DETACHED ?
						UTHREAD_CREATE_DETACHED :
						UTHREAD_CREATE_JOINABLE);
	if (uthread_attr_setstacksize(to, bytes))
		return false;
	/* A new thread has its creator's name. */
	if (!pthread_getname_np(pthread_self(), name, sizeof(name)))
		uthread_attr_setname(to, name);
	ask_sizes(attr, told);
	return true;
}

/* One that was told something begins with that. */
struct beginning {
	struct told told;
	void *(*fn)(void *);
	void *arg;
};

static void *begins(void *arg)
{
	const struct beginning b = *(struct beginning *)arg;

	free(arg);
	told_now(&b.told);
	return b.fn(b.arg);
}

/*
 * The first starts the runtime, for which that would do without a tick: a thread that
 * computes would keep its worker, which no thread of glibc's does. So none is started if
 * the program handles all signals, as gccgo's runtime does, which leaves no note.
 */
static bool runtime_starts(void)
{
	static uint32_t started;

	if (likely(load_relaxed(&started)))
		return true;
	if (uthread_init(NULL) == EBUSY && !uthread_worker_tid(0))
		return false;
	__atomic_store_n(&started, 1, __ATOMIC_RELAXED);
	return true;
}

/* With the mask of signals that was asked for, if any. EBUSY: there is no runtime. */
static int create_masked(pthread_t *thread, const pthread_attr_t *attr,
			 const uthread_attr_t *as, void *(*fn)(void *),
			 void *arg)
{
	sigset_t mask, old;
	int err;

	if (unlikely(!runtime_starts()))
		return EBUSY;
	if (likely(pthread_attr_getsigmask_np(attr, &mask)))
		return uthread_create_pthread(thread, as, fn, arg);
	pthread_sigmask(SIG_SETMASK, &mask, &old);
	err = uthread_create_pthread(thread, as, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

static int create(pthread_t *thread, const pthread_attr_t *attr,
		  const uthread_attr_t *as, struct told *told,
		  void *(*fn)(void *), void *arg)
{
	struct beginning *b;
	int err = told_by(attr, told);
	cpu_set_t old;
	bool widened;

	if (err || likely(told_nothing(told)))
		return err ? err : create_masked(thread, attr, as, fn, arg);
	b = malloc(sizeof(*b));
	if (!b)
		return EAGAIN;
	*b = (struct beginning){ *told, fn, arg };
	widened = cpus_widen(told, &old);
	err = create_masked(thread, attr, as, begins, b);
	if (widened)
		cpus_narrow(&old);
	if (err)
		free(b);
	return err;
}

static uint32_t all; /* atomic: 0 not known, 1 uthreads, 2 pthreads */

static void are_pthreads(const char *why)
{
	if (__atomic_exchange_n(&all, 2, __ATOMIC_RELAXED) != 2)
		fprintf(stderr, "uthread-run: threads are pthreads here: %s\n",
			why);
}

/* The linker of Go leaves a note. Its runtime sleeps in the kernel without libc, takes
 * all signals, and leaves none for the tick that would find that. */
static int is_go(struct dl_phdr_info *object, size_t bytes, void *arg)
{
	const ElfW(Phdr) *ph = object->dlpi_phdr;
	const ElfW(Nhdr) *note;
	const char *at, *end;
	int i;

	(void)bytes;
	(void)arg;
	for (i = 0; i < object->dlpi_phnum; i++) {
		if (ph[i].p_type != PT_NOTE)
			continue;
		at = (const char *)(object->dlpi_addr + ph[i].p_vaddr);
		end = at + ph[i].p_memsz;
		while ((size_t)(end - at) > sizeof(*note)) {
			note = (const ElfW(Nhdr) *)(const void *)at;
			at += sizeof(*note);
			if (note->n_namesz == 4 && !memcmp(at, "Go\0", 4))
				return 1;
			at += ((note->n_namesz + 3) & -4u) +
			      ((note->n_descsz + 3) & -4u);
			if (at > end)
				break;
		}
	}
	return 0;
}

static void look_at_program(void)
{
	uint32_t no = 0;

	libc_find_own();
	/* Its runtime is one of pthreads, and would crash at the first switch. */
	if (dlsym(RTLD_DEFAULT, "__tsan_switch_to_fiber")) {
		fprintf(stderr,
			"uthread-run: the program is built with -fsanitize=thread, which knows the threads of libc alone: run it without uthread-run\n");
		_exit(125);
	}
	if (dl_iterate_phdr(is_go, NULL))
		are_pthreads(
			"the program, or a library of it, is written in Go");
	else
		cas(&all, &no, 1);
}

/* Main, by itself, before it is a uthread. */
static pthread_t detached_early;

static void detach_now(void)
{
	uthread_t ut;

	uthread_init(NULL);
	ut = uthread_of_pthread(detached_early);
	if (ut)
		uthread_detach(ut);
	detached_early = 0;
}

/*
 * An allocator that is not libc's may begin a thread when memory is first asked for, by a
 * constructor before ours, and have a lock of its own meanwhile (heaptrack). It does not wait
 * for that thread, but would for those that start the runtime, which need memory.
 */
static bool for_an_allocator(void)
{
	return !begun && dlsym(RTLD_DEFAULT, "malloc") !=
				 dlsym(RTLD_DEFAULT, "__libc_malloc");
}

static int create_as(pthread_t *thread, const pthread_attr_t *attr,
		     void *(*fn)(void *), void *arg)
{
	struct told told;
	uthread_attr_t as;
	int err;

	if (unlikely(!load_relaxed(&all)))
		look_at_program();
	if (unlikely(load_relaxed(&all) == 2) || unlikely(for_an_allocator()) ||
	    !translate(attr, &as, &told))
		return core_pthread_create(thread, attr, fn, arg);
	if (unlikely(detached_early))
		detach_now();
	err = create(thread, attr, &as, &told, fn, arg);
	if (likely(err != ENOTSUP && err != EBUSY))
		return err;
	are_pthreads(
		err == ENOTSUP ?
			uthread_tls_reason() :
			"the program handles each signal that a tick could be; UTHREAD_SIGNAL names another, and UTHREAD_TICK=off has none");
	return core_pthread_create(thread, attr, fn, arg);
}

EXPORT int pthread_create(pthread_t *restrict thread,
			  const pthread_attr_t *restrict attr,
			  void *(*fn)(void *), void *restrict arg)
{
	pthread_attr_t usual;
	int err;

	if (attr)
		return create_as(thread, attr, fn, arg);
	/* By RLIMIT_STACK, or as pthread_setattr_default_np() said. */
	if (pthread_getattr_default_np(&usual))
		return core_pthread_create(thread, NULL, fn, arg);
	err = create_as(thread, &usual, fn, arg);
	pthread_attr_destroy(&usual);
	return err;
}

/* ---- the end ---- */

EXPORT int pthread_join(pthread_t thread, void **value)
{
	uthread_t ut = uthread_of_pthread(thread);

	if (unlikely(!ut))
		return LIBC(pthread_join)(thread, value);
	/* Of one that has ended it is no cancellation point. */
	return uthread_tryjoin(ut, value) ? uthread_join(ut, value) : 0;
}

EXPORT int pthread_tryjoin_np(pthread_t thread, void **value)
{
	uthread_t ut = uthread_of_pthread(thread);

	int err;

	if (unlikely(!ut))
		return LIBC(pthread_tryjoin_np)(thread, value);
	err = uthread_tryjoin(ut, value);
	/* Also if it is detached, or another's to join. */
	return err == EINVAL ? EBUSY : err;
}

EXPORT int pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock,
				const struct timespec *deadline)
{
	uthread_t ut = uthread_of_pthread(thread);
	struct timespec room;

	if (unlikely(!ut))
		return LIBC(pthread_clockjoin_np)(thread, value, clock,
						  deadline);
	if (!clock_is_known(clock))
		return EINVAL;
	if (!deadline)
		return pthread_join(thread, value);
	if (!uthread_tryjoin(ut, value))
		return 0;
	if (!time_is_valid(deadline))
		return EINVAL;
	return uthread_clockjoin(ut, value, clock,
				 kernels(clock, deadline, &room));
}

EXPORT int pthread_timedjoin_np(pthread_t thread, void **value,
				const struct timespec *deadline)
{
	return pthread_clockjoin_np(thread, value, CLOCK_REALTIME, deadline);
}

EXPORT int pthread_detach(pthread_t thread)
{
	uthread_t ut = uthread_of_pthread(thread);
	int err;

	if (likely(ut))
		return uthread_detach(ut);
	err = LIBC(pthread_detach)(thread);
	if (!err && !uthread_self() && thread == pthread_self())
		detached_early = thread;
	return err;
}

EXPORT int pthread_cancel(pthread_t thread)
{
	uthread_t ut = uthread_of_pthread(thread);

	return likely(ut) ? uthread_cancel(ut) : core_pthread_cancel(thread);
}

/* PTHREAD_CANCEL_* and UTHREAD_CANCEL_* are the same. */
EXPORT int pthread_setcancelstate(int state, int *old)
{
	return uthread_self() ? uthread_setcancelstate(state, old) :
				LIBC(pthread_setcancelstate)(state, old);
}

EXPORT int pthread_setcanceltype(int type, int *old)
{
	const int err = uthread_self() ? uthread_setcanceltype(type, old) :
					 LIBC(pthread_setcanceltype)(type, old);

	if (!err)
		asynchronous = type == PTHREAD_CANCEL_ASYNCHRONOUS;
	return err;
}

/* pthread_cleanup_push_defer_np() and _pop_restore_np(): glibc's would change its own
 * word for the type. It has no use for the last one in `buf`. */
EXPORT void __pthread_register_cancel_defer(__pthread_unwind_buf_t *buf);
EXPORT void __pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buf);

EXPORT void __pthread_register_cancel_defer(__pthread_unwind_buf_t *buf)
{
	int type = PTHREAD_CANCEL_DEFERRED;

	LIBC(__pthread_register_cancel)(buf);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	buf->__pad[3] = (void *)(intptr_t)type;
}

EXPORT void __pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buf)
{
	LIBC(__pthread_unregister_cancel)(buf);
	pthread_setcanceltype((int)(intptr_t)buf->__pad[3], NULL);
	pthread_testcancel();
}

__thread bool asynchronous __attribute__((tls_model("initial-exec")));

/* The object stays as glibc leaves it then: POSIX has no function of it that may be
 * called so. */
int wait_asynchronous(uint32_t *word, uint32_t value, uint32_t bits,
		      clockid_t clock, const struct timespec *deadline,
		      int flags)
{
	const int err = uthread_futex_wait(word, value, bits, clock, deadline,
					   flags | UTHREAD_FUTEX_CANCEL);

	if (err == ECANCELED && !(flags & UTHREAD_FUTEX_CANCEL))
		uthread_testcancel();
	return err;
}

EXPORT int sched_yield(void)
{
	return uthread_self() ? uthread_yield_cpu() : LIBC(sched_yield)();
}

/* <pthread.h> makes it sched_yield(); who was compiled before that, by glibc 2.33 or
 * earlier, asks for it. */
EXPORT int pthread_yield(void);
__attribute__((visibility("default"))) int
yield_by_old_name(void) __asm__("pthread_yield");
int yield_by_old_name(void)
{
	return sched_yield();
}
