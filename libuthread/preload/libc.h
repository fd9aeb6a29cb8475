/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc.h - glibc's own functions behind those that are defined here, and what all
 * files of this room need.
 *
 * libuthread's own calls of a function that is defined here go to core_NAME
 * (core.sh): its workers are glibc's threads, its start takes glibc's locks.
 */
#ifndef PRELOAD_LIBC_H
#define PRELOAD_LIBC_H

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <mqueue.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "uthread.h"
#include "uthread/futex.h"
#include "uthread/pthread.h"

#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* As in src/base/spin.h. */
#define LARGE __attribute__((section(".bss.large")))
/* Another exported name of the same function. */
#define SAME(other, name) \
	EXPORT __typeof__(name) other __attribute__((alias(#name)))

/* Behind what _FORTIFY_SOURCE makes of a call. */
void __chk_fail(void) __attribute__((noreturn));
int __open_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);

/* What pthread_cleanup_push() of C without exceptions calls. */
void __pthread_register_cancel(__pthread_unwind_buf_t *buf);
void __pthread_unregister_cancel(__pthread_unwind_buf_t *buf);

/* name, result, parameters */
#define LIBC_NAMES(F)                  \
	F(pthread_join)                \
	F(pthread_detach)              \
	F(pthread_tryjoin_np)          \
	F(pthread_timedjoin_np)        \
	F(pthread_clockjoin_np)        \
	F(pthread_setcancelstate)      \
	F(pthread_setcanceltype)       \
	F(__pthread_register_cancel)   \
	F(__pthread_unregister_cancel) \
	F(pthread_setname_np)          \
	F(pthread_getname_np)          \
	F(pthread_getaffinity_np)      \
	F(pthread_setaffinity_np)      \
	F(pthread_getschedparam)       \
	F(pthread_setschedparam)       \
	F(pthread_setschedprio)        \
	F(pthread_getattr_np)          \
	F(pthread_getcpuclockid)       \
	F(clock_gettime)               \
	F(getrusage)                   \
	F(clock_getres)                \
	F(clock_settime)               \
	F(prctl)                       \
	F(setfsgid)                    \
	F(setfsuid)                    \
	F(setns)                       \
	F(unshare)                     \
	F(tgkill)                      \
	F(sched_yield)                 \
	F(sched_getaffinity)           \
	F(sched_setaffinity)           \
	F(sched_getscheduler)          \
	F(sched_setscheduler)          \
	F(sched_getparam)              \
	F(sched_rr_get_interval)       \
	F(getpriority)                 \
	F(setpriority)                 \
	F(nice)                        \
	F(timer_create)                \
	F(timer_delete)                \
	F(sched_setparam)              \
	F(pthread_mutex_init)          \
	F(pthread_mutex_destroy)       \
	F(pthread_mutex_lock)          \
	F(pthread_mutex_trylock)       \
	F(pthread_mutex_timedlock)     \
	F(pthread_mutex_clocklock)     \
	F(pthread_mutex_unlock)        \
	F(pthread_mutex_consistent)    \
	F(pthread_cond_wait)           \
	F(pthread_cond_clockwait)      \
	F(pthread_cond_timedwait)      \
	F(pthread_cond_signal)         \
	F(pthread_cond_broadcast)      \
	F(pthread_cond_destroy)        \
	F(pthread_rwlock_rdlock)       \
	F(pthread_rwlock_tryrdlock)    \
	F(pthread_rwlock_clockrdlock)  \
	F(pthread_rwlock_timedrdlock)  \
	F(pthread_rwlock_wrlock)       \
	F(pthread_rwlock_trywrlock)    \
	F(pthread_rwlock_clockwrlock)  \
	F(pthread_rwlock_timedwrlock)  \
	F(pthread_rwlock_unlock)       \
	F(pthread_rwlock_destroy)      \
	F(sem_trywait)                 \
	F(sem_post)                    \
	F(pthread_barrier_wait)        \
	F(pthread_barrier_destroy)     \
	F(pthread_once)                \
	F(wait4)                       \
	F(waitid)                      \
	F(fsync)                       \
	F(fdatasync)                   \
	F(getaddrinfo)                 \
	F(open)                        \
	F(openat)                      \
	F(creat)                       \
	F(open_by_handle_at)           \
	F(__open_2)                    \
	F(__openat_2)                  \
	F(pread)                       \
	F(pwrite)                      \
	F(preadv)                      \
	F(pwritev)                     \
	F(preadv2)                     \
	F(pwritev2)                    \
	F(msync)                       \
	F(fallocate)                   \
	F(sync_file_range)             \
	F(copy_file_range)             \
	F(splice)                      \
	F(sendfile)                    \
	F(vmsplice)                    \
	F(tee)                         \
	F(tcdrain)                     \
	F(getrandom)                   \
	F(fcntl)                       \
	F(ioctl)                       \
	F(fclose)                      \
	F(lockf)                       \
	F(mq_send)                     \
	F(mq_timedsend)                \
	F(mq_receive)                  \
	F(mq_timedreceive)             \
	F(system)                      \
	F(mkstemp)                     \
	F(mkostemp)                    \
	F(mkstemps)                    \
	F(mkostemps)                   \
	F(tmpfile)                     \
	F(posix_openpt)                \
	F(getpwnam)                    \
	F(getpwuid)                    \
	F(getgrnam)                    \
	F(getgrgid)                    \
	F(getpwnam_r)                  \
	F(getpwuid_r)                  \
	F(getgrnam_r)                  \
	F(getgrgid_r)                  \
	F(syscall)

/* By which the runtime tells the time: of libc itself, for what is preloaded beside it may
 * say another than the kernel's, by which it sleeps (libfaketime). */
#define OWN_NAMES(F) F(clock_gettime) F(timer_settime)

extern HIDDEN struct libc {
#define F(name) __typeof__(&name) name;
	LIBC_NAMES(F)
	struct {
		OWN_NAMES(F)
	} own;
#undef F
	/* The program has another time than the kernel. */
	bool other_time;
	/* Where struct pthread has the thread's id, from pthread_self(). */
	size_t tid_at;
	/* The word of pthread_cond_t with its attributes, and the bits of it. */
	size_t cond_flags_at;
	uint32_t cond_shared, cond_monotonic;
	/* In the child of a fork, who forked. */
	pthread_t forker;
	pid_t process;
	/* The generation of the process, in the bits of a pthread_once_t. */
	int once_generation;
	uint32_t ready; /* atomic */
} libc_is;

HIDDEN void libc_find(void);
HIDDEN void libc_find_own(void); /* before there are threads */

/* Any function may be the first: constructors of other objects come before ours. */
static inline struct libc *libc(void)
{
	if (unlikely(!__atomic_load_n(&libc_is.ready, __ATOMIC_ACQUIRE)))
		libc_find();
	return &libc_is;
}

#define LIBC(name) (libc()->name)

/* libuthread's, of real pthreads. */
HIDDEN int core_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			       void *(*fn)(void *), void *arg);
HIDDEN int core_pthread_cancel(pthread_t thread);
HIDDEN int core_pthread_kill(pthread_t thread, int sig);
HIDDEN int core_pthread_sigqueue(pthread_t thread, int sig,
				 const union sigval value);
HIDDEN long copy_by_syscall(long nr, const long *a);
HIDDEN int core_clock_gettime(clockid_t clock, struct timespec *time);
HIDDEN int core_sem_wait(sem_t *sem);
HIDDEN int core_sem_clockwait(sem_t *sem, clockid_t clock,
			      const struct timespec *deadline);

/* What a point of cancellation returns. Who was cancelled as it began, before what made it
 * fail (another has closed the descriptor), ends here as in a wait. */
static inline ssize_t or_cancelled(ssize_t got)
{
	if (unlikely(got < 0))
		uthread_testcancel();
	return got;
}

/* What libc has for the caller's id: a uthread's, or the kernel's. */
static inline uint32_t self_tid(void)
{
	return *(const uint32_t *)((uintptr_t)pthread_self() + libc()->tid_at);
}

static inline uint32_t *word_of(const void *field)
{
	return (uint32_t *)(uintptr_t)field;
}

static inline uint32_t load_relaxed(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline uint32_t load_acquire(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline bool cas(uint32_t *word, uint32_t *old, uint32_t to)
{
	return __atomic_compare_exchange_n(word, old, to, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static inline uint32_t add(uint32_t *word, uint32_t by)
{
	return __atomic_fetch_add(word, by, __ATOMIC_SEQ_CST);
}

/* Nothing lies there, in any program. (The kernel finds what else is not mapped, too, and is
 * left to say so; here it faults.) */
static inline bool is_nowhere(const void *at)
{
	return (uintptr_t)at < 4096 || (intptr_t)at < 0;
}

/* The same, but for who says nothing by NULL. */
static inline bool is_said_nowhere(const void *at)
{
	return at && is_nowhere(at);
}

static inline bool time_is_valid(const struct timespec *t)
{
	return t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

/* flags.c: what it sends along is others', too. */
struct msghdr;
HIDDEN void gives_away(const struct msghdr *m);

/* clock.c: the same moment by the kernel's clock, in `room`. */
HIDDEN const struct timespec *shifted(clockid_t clock,
				      const struct timespec *deadline,
				      struct timespec *room);

/* A deadline that the program gives, by the clock that it reads. */
static inline const struct timespec *
kernels(clockid_t clock, const struct timespec *deadline, struct timespec *room)
{
	return deadline && unlikely(libc()->other_time) ?
		       shifted(clock, deadline, room) :
		       deadline;
}

/* threads.c: the caller may be cancelled wherever it is, so while it waits, too. */
extern HIDDEN __thread bool asynchronous
	__attribute__((tls_model("initial-exec")));
HIDDEN int wait_asynchronous(uint32_t *word, uint32_t value, uint32_t bits,
			     clockid_t clock, const struct timespec *deadline,
			     int flags);

/* The runtime has a meaning for some deadlines that are malformed. */
static inline int wait_on_bits(uint32_t *word, uint32_t value, uint32_t bits,
			       clockid_t clock, const struct timespec *deadline,
			       int flags)
{
	struct timespec room;

	if (deadline && unlikely(!time_is_valid(deadline)))
		return deadline->tv_sec < 0 ? ETIMEDOUT : EINVAL;
	deadline = kernels(clock, deadline, &room);
	if (unlikely(asynchronous))
		return wait_asynchronous(word, value, bits, clock, deadline,
					 flags);
	return uthread_futex_wait(word, value, bits, clock, deadline, flags);
}

static inline int wait_on(uint32_t *word, uint32_t value, clockid_t clock,
			  const struct timespec *deadline, int flags)
{
	return wait_on_bits(word, value, UTHREAD_FUTEX_ANY, clock, deadline,
			    flags);
}

/* Of the word nothing but the address is used. */
static inline void wake_bits(uint32_t *word, int count, uint32_t bits)
{
	uthread_futex_wake(word, count, bits);
}

static inline void wake(uint32_t *word, int count)
{
	wake_bits(word, count, UTHREAD_FUTEX_ANY);
}

/* sleep.c: so long from now on. */
HIDDEN struct timespec time_after(clockid_t clock, const struct timespec *time);

/* futex.c: of syscall(). False: it is the kernel's. */
HIDDEN bool futex_call(long nr, const long args[6], long *result);
/* The caller is about to wait there for words that are woken here; and has. */
HIDDEN void futex_enters_kernel(void);
HIDDEN void futex_left_kernel(void);

static inline bool clock_is_known(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield" : : : "memory");
#endif
}

/* How often a word is looked at before who wants it sleeps. */
#define SPINS 64

/* A uthread that is not main: main is the first kernel thread, as the kernel knows. */
static inline uthread_t other_than_main(pthread_t thread)
{
	uthread_t ut = uthread_of_pthread(thread);

	return ut && uthread_id(ut) != (uint32_t)getpid() ? ut : NULL;
}

/* `mine`, thread-local of this library (initial-exec), of that thread, whose memory is
 * there: as far from its pthread_t as from the caller's. */
static inline void *in_thread(pthread_t thread, void *mine)
{
	return (void *)((uintptr_t)mine +
			((uintptr_t)thread - (uintptr_t)pthread_self()));
}

/* clock.c: in the child. */
HIDDEN void clock_forked(void);
/* cond.c, names.c: the same. */
HIDDEN void cond_forked(void);
HIDDEN void names_forked(void);
/* self.c, sched.c: the same. */
HIDDEN void nice_forked(void);
HIDDEN void cpus_forked(void);

/* sched.c: what a thread was told of where and how to run, and what one that the
 * caller makes shall be told. */
struct told {
	int policy, priority;
	int nice; /* with has_nice */
	bool is_explicit, has_nice;
	uint32_t has_cpus;
	cpu_set_t cpus;
	/* Bytes of its stack, and of its guard and one more, as asked for; 0: as
	 * usual. */
	size_t stack, guard;
};

/* All but the sizes. 0, or EINVAL: of its CPUs there is none. */
HIDDEN int told_by(const pthread_attr_t *attr, struct told *to);
/* As one is that nobody has told anything. */
HIDDEN bool told_nothing(const struct told *told);
/* The caller is told that. */
HIDDEN void told_now(const struct told *told);

/* The caller's, or NULL: it was told none. */
HIDDEN const int *told_nice(void);
HIDDEN void tell_nice(int nice);

/* What CPUs the process began with, before anybody changes that. */
HIDDEN void cpus_look(void);
/* The kernel is about to be told of a thread's that is none of ours. */
HIDDEN void cpus_tell_kernel(void);
/* The caller may run on all that is needed for workers that run a thread like that;
 * false: it may already. Then cpus_narrow(), when they are there. */
HIDDEN bool cpus_widen(const struct told *told, cpu_set_t *old);
HIDDEN void cpus_narrow(const cpu_set_t *old);

/* identity.c: syscall() of what is the kernel thread's alone: true if the kernel has refused
 * it, or nothing changes; if something does, it does not return. */
HIDDEN bool identity_call(long nr, const long *a, long *got);

/* self.c: syscall() of SYS_sched_getattr or SYS_sched_setattr. False: by somebody whom
 * the kernel knows, or of somebody else. */
HIDDEN bool attr_of_self(long nr, const long args[4], long *result);

/* mutex.c, for who waits for a condition. */
HIDDEN int mutex_leave(pthread_mutex_t *mutex);
HIDDEN int mutex_come_back(pthread_mutex_t *mutex);
/* Its waiters sleep in the kernel. */
HIDDEN bool mutex_is_glibcs(const pthread_mutex_t *mutex);
/* True: until uthread_robust_take_back() glibc's functions know it. */
HIDDEN bool mutex_lend(pthread_mutex_t *mutex);
/* cond.c: `deadline` may be NULL. */
HIDDEN int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex,
			   clockid_t clock, const struct timespec *deadline);

#endif
