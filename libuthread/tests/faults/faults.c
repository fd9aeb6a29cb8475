/* SPDX-License-Identifier: Apache-2.0 */
/* faults.c - the runtime's calls, each of which may fail (faults.h). Handlers
 * of signals come here too: nothing but atomics. */
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct faults *faults;

static struct held held;

#define COUNT(what, by) __atomic_fetch_add(&held.what, by, __ATOMIC_RELAXED)

struct held faults_held(void)
{
	struct held h;

	h.blocks = __atomic_load_n(&held.blocks, __ATOMIC_RELAXED);
	h.maps = __atomic_load_n(&held.maps, __ATOMIC_RELAXED);
	h.timers = __atomic_load_n(&held.timers, __ATOMIC_RELAXED);
	h.files = __atomic_load_n(&held.files, __ATOMIC_RELAXED);
	return h;
}

static const char *load_kind(void)
{
	return __atomic_load_n(&faults->kind, __ATOMIC_SEQ_CST);
}

/* Kinds are compared by address: one string each. */
static bool fails(const char *kind, const void *site)
{
	struct faults *f = faults;
	const char *first;
	uint32_t n;

	if (!f)
		return false;
	n = __atomic_add_fetch(&f->calls, 1, __ATOMIC_SEQ_CST);
	first = load_kind();
	if (n == f->at) {
		f->site = site;
		__atomic_store_n(&f->kind, kind, __ATOMIC_SEQ_CST);
	} else if (!f->on || first != kind) {
		return false;
	}
	__atomic_fetch_add(&f->failed, 1, __ATOMIC_RELAXED);
	return true;
}

#define FAILS(kind) fails(kind, __builtin_return_address(0))

/* Returns -1 and sets errno, like most. */
#define FAIL_ERRNO(kind, e)          \
	do {                         \
		if (FAILS(kind)) {   \
			errno = (e); \
			return -1;   \
		}                    \
	} while (0)

/* Returns the error number, like pthreads. */
#define FAIL_NUMBER(kind, e)        \
	do {                        \
		if (FAILS(kind))    \
			return (e); \
	} while (0)

/* Every wrapper is called by name from the renamed library only. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* ---- memory ---- */

void *fault_malloc(size_t bytes)
{
	void *p;

	if (FAILS("malloc")) {
		errno = ENOMEM;
		return NULL;
	}
	p = malloc(bytes);
	COUNT(blocks, !!p);
	return p;
}

void *fault_calloc(size_t n, size_t bytes)
{
	void *p;

	if (FAILS("calloc")) {
		errno = ENOMEM;
		return NULL;
	}
	p = calloc(n, bytes);
	COUNT(blocks, !!p);
	return p;
}

int fault_posix_memalign(void **p, size_t align, size_t bytes)
{
	int err;

	FAIL_NUMBER("posix_memalign", ENOMEM);
	err = posix_memalign(p, align, bytes);
	COUNT(blocks, !err);
	return err;
}

void fault_free(void *p)
{
	COUNT(blocks, -!!p);
	free(p);
}

cpu_set_t *fault___sched_cpualloc(size_t n)
{
	if (FAILS("CPU_ALLOC")) {
		errno = ENOMEM;
		return NULL;
	}
	return __sched_cpualloc(n);
}

void *fault_mmap64(void *at, size_t bytes, int prot, int flags, int fd,
		   off_t off)
{
	void *p;

	if (FAILS("mmap")) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	p = mmap(at, bytes, prot, flags, fd, off);
	COUNT(maps, p != MAP_FAILED);
	return p;
}

/* What fails to be given back is not the caller's fault. */
int fault_munmap(void *p, size_t bytes)
{
	COUNT(maps, -1);
	FAIL_ERRNO("munmap", ENOMEM);
	return munmap(p, bytes);
}

int fault_mprotect(void *p, size_t bytes, int prot)
{
	FAIL_ERRNO("mprotect", ENOMEM);
	return mprotect(p, bytes, prot);
}

int fault_madvise(void *p, size_t bytes, int advice)
{
	FAIL_ERRNO("madvise", EINVAL);
	return madvise(p, bytes, advice);
}

int fault_mincore(void *p, size_t bytes, unsigned char *out)
{
	FAIL_ERRNO("mincore", EAGAIN);
	return mincore(p, bytes, out);
}

/* ---- the loader ---- */

static void *(*real_allocate_tls)(void *);

static void *fault_allocate_tls(void *tp)
{
	return FAILS("_dl_allocate_tls") ? NULL : real_allocate_tls(tp);
}

static int (*real_create)(pthread_t *, const pthread_attr_t *,
			  void *(*)(void *), void *);

static int fault_create(pthread_t *t, const pthread_attr_t *attr,
			void *(*fn)(void *), void *arg)
{
	FAIL_NUMBER("pthread_create", EAGAIN);
	return real_create(t, attr, fn, arg);
}

int libc_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			void *(*fn)(void *), void *arg)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
		    void *);

	*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	return next(t, attr, fn, arg);
}

/* A libc without that symbol; the next definition there always is. */
void *fault_dlsym(void *handle, const char *name)
{
	void *p;

	if (handle != RTLD_NEXT && FAILS("dlsym"))
		return NULL;
	p = dlsym(handle, name);
	if (p && !strcmp(name, "_dl_allocate_tls")) {
		*(void **)&real_allocate_tls = p;
		*(void *(**)(void *)) & p = fault_allocate_tls;
	} else if (p && !strcmp(name, "pthread_create")) {
		*(void **)&real_create = p;
		*(int (**)(pthread_t *, const pthread_attr_t *,
			   void *(*)(void *), void *))&p = fault_create;
	}
	return p;
}

/* ---- threads ---- */

int fault_pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	FAIL_NUMBER("pthread_key_create", EAGAIN);
	return pthread_key_create(key, destructor);
}

int fault_pthread_setspecific(pthread_key_t key, const void *value)
{
	if (value)
		FAIL_NUMBER("pthread_setspecific", ENOMEM);
	return pthread_setspecific(key, value);
}

int fault_pthread_setaffinity_np(pthread_t t, size_t bytes,
				 const cpu_set_t *set)
{
	FAIL_NUMBER("pthread_setaffinity_np", EINVAL);
	return pthread_setaffinity_np(t, bytes, set);
}

int fault_pthread_setname_np(pthread_t t, const char *name)
{
	FAIL_NUMBER("pthread_setname_np", ENOENT);
	return pthread_setname_np(t, name);
}

int fault_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	FAIL_ERRNO("sched_getaffinity", EINVAL);
	return sched_getaffinity(pid, bytes, set);
}

/* ---- signals, timers ---- */

/* libc's name for it that nobody stands before. */
int __sigaction(int sig, const struct sigaction *new, struct sigaction *old);

int fault___sigaction(int sig, const struct sigaction *new,
		      struct sigaction *old)
{
	FAIL_ERRNO("sigaction", EINVAL);
	return __sigaction(sig, new, old);
}

int fault_timer_create(clockid_t clock, struct sigevent *ev, timer_t *timer)
{
	int r;

	FAIL_ERRNO("timer_create", EAGAIN);
	r = timer_create(clock, ev, timer);
	COUNT(timers, !r);
	return r;
}

int fault_timer_delete(timer_t timer)
{
	COUNT(timers, -1);
	return timer_delete(timer);
}

/* ---- files ---- */

int fault_pipe2(int fd[2], int flags)
{
	int r;

	FAIL_ERRNO("pipe2", EMFILE);
	r = pipe2(fd, flags);
	COUNT(files, r ? 0 : 2);
	return r;
}

int fault_open64(const char *path, int flags, ...)
{
	int fd;

	FAIL_ERRNO("open", EMFILE);
	fd = open(path, flags);
	COUNT(files, fd >= 0);
	return fd;
}

int fault_close(int fd)
{
	COUNT(files, -1);
	return close(fd);
}

FILE *fault_fopen64(const char *path, const char *mode)
{
	FILE *f;

	if (FAILS("fopen")) {
		errno = EMFILE;
		return NULL;
	}
	f = fopen(path, mode);
	COUNT(files, !!f);
	return f;
}

int fault_fclose(FILE *f)
{
	COUNT(files, -1);
	return fclose(f);
}

/* ---- system calls without a wrapper in libc ---- */

long fault_syscall(long nr, ...)
{
	long a[6];
	va_list ap;
	int i;

	va_start(ap, nr);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	switch (nr) {
	case SYS_membarrier:
		/* Once it is registered it does not fail. */
		if (a[0] != 8 /* PRIVATE_EXPEDITED */)
			FAIL_ERRNO("membarrier", ENOSYS);
		break;
	case SYS_rt_sigaction:
		FAIL_ERRNO("rt_sigaction", EINVAL);
		break;
	case SYS_sigaltstack:
		FAIL_ERRNO("sigaltstack", ENOMEM);
		break;
	case SYS_get_robust_list:
		FAIL_ERRNO("get_robust_list", ENOSYS);
		break;
	case SYS_rt_tgsigqueueinfo:
		/* RLIMIT_SIGPENDING; not for ever. */
		if (!faults || !load_kind())
			FAIL_ERRNO("rt_tgsigqueueinfo", EAGAIN);
		break;
	case SYS_rt_sigqueueinfo:
		FAIL_ERRNO("rt_sigqueueinfo", EAGAIN);
		break;
	default:
		break;
	}
	return syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
