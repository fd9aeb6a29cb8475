/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compat.c - the libc functions that must know about own TLS blocks.
 *
 * dlopen, dlclose       a new module's static TLS is brought to every block
 * pthread_getattr_np    the uthread's stack, not the carrier's
 * pthread_key_create    destructors are remembered, to run at a uthread's end
 * pthread_exit          is uthread_exit() in a uthread
 * pthread_cancel        of a uthread or worker is refused: ESRCH
 * fork                  runs on the carrier's TLS, which glibc's child
 *                       handling knows; in the child only the caller lives
 * set*id, cancel        glibc's signals 32 and 33 are handled on the
 *                       carrier's TLS, which is the one on its list
 *
 * Those down to pthread_cancel are defined here and found before libc's because the
 * program links libuthread first. Before any uthread exists they only pass
 * the call on.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "internal.h"
#include "preempt.h"
#include "tls.h"

#define EXPORT __attribute__((visibility("default")))
#define NEXT(var, name) (*(void **)&(var) = dlsym(RTLD_NEXT, name))

static bool on_own_tls(const struct uthread *me)
{
	return me && (me->flags & UT_OWN_TLS);
}

/* ---- dlopen, dlclose ---- */

/*
 * The loader searches the RUNPATH of the object that calls dlopen(), and it
 * would take us for that object. So look there for the caller first.
 */
static bool find_in_runpath(const char *file, const void *caller,
			    char path[PATH_MAX])
{
	const char *strtab = NULL, *run = NULL, *p, *end, *rest;
	char origin[PATH_MAX];
	ElfW(Xword) runpath = 0;
	struct link_map *lm;
	const ElfW(Dyn) *d;
	ssize_t n;
	Dl_info info;

	if (!dladdr1(caller, &info, (void **)&lm, RTLD_DL_LINKMAP) || !lm->l_ld)
		return false;
	for (d = lm->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			strtab = (const char *)d->d_un.d_ptr;
		else if (d->d_tag == DT_RUNPATH ||
			 (d->d_tag == DT_RPATH && !runpath))
			runpath = d->d_un.d_val;
	}
	if (!strtab || !runpath)
		return false;
	if (*lm->l_name) {
		if (!realpath(lm->l_name, origin))
			return false;
	} else {
		n = readlink("/proc/self/exe", origin, sizeof(origin) - 1);
		if (n < 0)
			return false;
		origin[n] = 0;
	}
	*strrchr(origin, '/') = 0;
	run = strtab + runpath;
	for (p = run; *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, ':');
		rest = p;
		if (!strncmp(p, "$ORIGIN", 7))
			rest = p + 7;
		else if (!strncmp(p, "${ORIGIN}", 9))
			rest = p + 9;
		if (snprintf(path, PATH_MAX, "%s%.*s/%s",
			     rest == p ? "" : origin, (int)(end - rest), rest,
			     file) < PATH_MAX &&
		    !access(path, F_OK))
			return true;
	}
	return false;
}

EXPORT void *dlopen(const char *file, int mode)
{
	static void *(*next)(const char *, int);
	char path[PATH_MAX];
	void *handle = NULL;

	if (!next)
		NEXT(next, "dlopen");
	if (file && *file && !strchr(file, '/') && !getenv("LD_LIBRARY_PATH") &&
	    find_in_runpath(file, __builtin_return_address(0), path))
		handle = next(path, mode);
	if (!handle)
		handle = next(file, mode);
	if (handle && load_acquire(&rt.started))
		tls_refresh();
	return handle;
}

EXPORT int dlclose(void *handle)
{
	static int (*next)(void *);
	int r;

	if (!next)
		NEXT(next, "dlclose");
	r = next(handle);
	if (!r && load_acquire(&rt.started))
		tls_refresh();
	return r;
}

/* ---- pthread_getattr_np ---- */

struct search {
	pthread_t self;
	struct uthread *found;
};

static void match_self(struct uthread *ut, void *arg)
{
	struct search *s = arg;

	if ((ut->flags & UT_TLS_BLOCK) && tls_pthread(ut) == s->self)
		s->found = ut;
}

EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	static int (*next)(pthread_t, pthread_attr_t *);
	struct search s = { .self = thread };
	struct uthread *me;
	int err;

	if (!next)
		NEXT(next, "pthread_getattr_np");
	if (!load_acquire(&rt.started))
		return next(thread, attr);
	me = uthread_current();
	if (on_own_tls(me) && tls_pthread(me) == thread)
		s.found = me;
	else
		stack_each(match_self, &s);
	if (!s.found)
		return next(thread, attr);
	err = pthread_attr_init(attr);
	if (err)
		return err;
	pthread_attr_setguardsize(attr, stack_page());
	return pthread_attr_setstack(
		attr, s.found->stack_low,
		(size_t)(s.found->stack_top - s.found->stack_low));
}

/* ---- thread-specific data of libraries ---- */

static void (*key_destructor[PTHREAD_KEYS_MAX])(void *);
static uint32_t key_limit; /* keys below it may have a destructor */

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

/* As at the end of a pthread. Runs on the uthread's own TLS. */
void compat_run_pthread_keys(void)
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

/* ---- the end of a thread ---- */

/* libc's would unwind to a frame of start_thread() that is not there. */
EXPORT void pthread_exit(void *value)
{
	static void (*next)(void *) __attribute__((noreturn));

	if (uthread_current())
		uthread_exit(value);
	if (!next)
		NEXT(next, "pthread_exit");
	next(value);
}

static bool is_ours(pthread_t thread)
{
	int i;

	for (i = 0; i < rt.nworkers; i++)
		if (pthread_equal(rt.workers[i]->pthread, thread))
			return true;
	return !*tls_reason() && tls_pthread_id(thread) >= UTHREAD_FIRST_ID;
}

/* A uthread would not survive its next cancellation point, and a worker would
 * take its uthreads with it. */
EXPORT int pthread_cancel(pthread_t thread)
{
	static int (*next)(pthread_t);

	if (load_acquire(&rt.started) && is_ours(thread))
		return ESRCH;
	if (!next)
		NEXT(next, "pthread_cancel");
	return next(thread);
}

/* ---- fork ---- */

/* On the carrier's TLS: the uthread that forks. Never inlined, so that no
 * address of it is kept across the exchange of the thread pointer. */
static __thread struct uthread *forking
	__attribute__((tls_model("initial-exec")));

static __attribute__((noinline)) void set_forking(struct uthread *me)
{
	barrier();
	forking = me;
}

static __attribute__((noinline)) struct uthread *get_forking(void)
{
	barrier();
	return forking;
}

/*
 * What must be whole in the child, where nobody would finish it. Queues and
 * deadlines need not be: they are emptied there. The modules' lock is one to
 * park for and taken before the rest: one fork at a time.
 */
static void fork_lock(void)
{
	keys_fork_lock();
	stack_fork_lock();
}

static void fork_unlock(void)
{
	stack_fork_unlock();
	keys_fork_unlock();
}

static void fork_prepare(void)
{
	struct uthread *me = uthread_current();

	tls_modules_lock();
	if (me)
		spare_fork_begin();
	/* Left on this block in parent and child: no tick may move us while
	 * we borrow the carrier's. The locks are taken and given back there. */
	region_enter();
	if (me)
		store_relaxed(&me->worker->forks, true);
	if (on_own_tls(me))
		arch_set_tp(me->worker->tp);
	fork_lock();
	set_forking(me);
}

static void fork_done(struct uthread *me)
{
	if (on_own_tls(me))
		arch_set_tp(me->tcb);
	if (me)
		store_relaxed(&me->worker->forks, false);
}

static void fork_parent(void)
{
	struct uthread *me = get_forking();

	fork_unlock();
	if (me)
		spare_fork_end();
	fork_done(me);
	region_leave();
	tls_modules_unlock();
}

static void fork_child(void)
{
	struct uthread *me = get_forking();

	fork_unlock();
	tls_modules_forked();
	runtime_forked(me);
	fork_done(me);
	region_leave();
}

/* ---- glibc's own signals ---- */

struct kernel_sigaction {
	void *handler;
	unsigned long flags;
#if defined(__x86_64__)
	void *restorer;
#endif
	unsigned long mask;
};

#define SIG_FIRST 32 /* SIGCANCEL, then SIGSETXID */

static void (*glibc_handler[2])(int, siginfo_t *, void *);

static void on_carrier(int sig, siginfo_t *si, void *uc)
{
	struct uthread *me = uthread_current();
	bool away = on_own_tls(me);
	uintptr_t mine = arch_tp();

	if (away)
		arch_set_tp(me->worker->tp);
	glibc_handler[sig - SIG_FIRST](sig, si, uc);
	if (away)
		arch_set_tp(mine);
}

static void wrap_signal(int sig)
{
	struct kernel_sigaction sa;

	if (syscall(SYS_rt_sigaction, sig, NULL, &sa, sizeof(sa.mask)) ||
	    sa.handler == (void *)SIG_DFL || sa.handler == (void *)SIG_IGN)
		return;
	*(void **)&glibc_handler[sig - SIG_FIRST] = sa.handler;
	*(void (**)(int, siginfo_t *, void *))&sa.handler = on_carrier;
	if (syscall(SYS_rt_sigaction, sig, &sa, NULL, sizeof(sa.mask)))
		ut_warn("signal %d of libc cannot be handled: setuid() and the like may hang",
			sig);
}

void compat_setup(void)
{
	static bool done;

	if (*tls_reason() || done)
		return;
	done = true;
	wrap_signal(SIG_FIRST);
	wrap_signal(SIG_FIRST + 1);
}

int compat_fork_setup(void)
{
	static bool done;

	if (!done)
		done = !pthread_atfork(fork_prepare, fork_parent, fork_child);
	return done ? 0 : EAGAIN;
}
