/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread/pthread.h - a uthread by the name that libc has for it. One with own TLS
 * is a thread to libc: pthread_self() in it is the address of its block. For who
 * builds pthreads on uthreads; <uthread.h> does not include it.
 */
#ifndef UTHREAD_PTHREAD_H
#define UTHREAD_PTHREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/types.h> /* clockid_t, in strict C99 too */
#include <sys/wait.h>

#include "../uthread.h"

struct rusage;

#ifdef __cplusplus
extern "C" {
#endif

/* uthread_create() of one with own TLS; *id is set before it runs. ENOTSUP: there is
 * no own TLS here. */
int uthread_create_pthread(pthread_t *id, const uthread_attr_t *attr,
			   void *(*fn)(void *), void *arg);
/* NULL: it is a pthread. As with pthreads the thread must not be gone. */
uthread_t uthread_of_pthread(pthread_t id);
/* The one that has not ended and has that uthread_id(), or NULL: looks at all of them. */
uthread_t uthread_by_id(uint32_t id);

/* From now on handlers of signals end the caller's waits for descriptors
 * and children (<uthread/io.h>) with EINTR: 0 none, as at first; 1 those without
 * SA_RESTART; 2 all. Returns what it was. Nothing in a pthread. A handler that leaves
 * such a wait by siglongjmp() leaves 0 behind. */
int uthread_interruptible(int how);
/* 1: a uthread, in no handler for SIGSYS. 0: it is to make the calls that it was written
 * with and no others. A seccomp filter of the program's may trap those, and that is what
 * the handler is for. */
int uthread_may_park(void);
/* How many handlers of signals the caller has run. A call that ends with EINTR and has left
 * it as it was (read it before) was interrupted by a tick, and is to be begun anew. 0 in a
 * pthread. */
uint32_t uthread_handlers_run(void);
/* 1: in a call that handlers end the caller should sleep in the kernel, for a signal to
 * the process may reach it nowhere else: it is main, which the kernel prefers, or it
 * lets in what main blocks, and a spare is left. So should a pthread. 0: it may as well
 * park. */
int uthread_stays_for_signals(void);
/* As uthread_yield(), but if nobody else is to run on this worker, and else now and then, its
 * kernel thread yields: whom the caller waits for may be on another one, which has to
 * share the CPU. */
int uthread_yield_cpu(void);
/*
 * While it runs, the kernel thread that runs it has these CPUs, `bytes` of a cpu_set_t; NULL:
 * those of the worker, as at first. So do the children that it forks, and what it
 * execs. Its own turn at once; another's as soon as it can be stopped. CPUs that the process
 * cannot have are none. ESRCH: it is gone; EAGAIN: no memory, or 4 096 sets were asked for.
 */
int uthread_confine(uthread_t thread, const unsigned long *cpus, size_t bytes);
/* What the first kernel thread of the process has, whoever runs there now. 0, or an errno. */
int uthread_process_cpus(unsigned long *cpus, size_t bytes);
/* 1: who reads there now would find nothing, as far as is known: the last one emptied
 * it, and it is watched since. So uthread_read() and the like wait at once, and who asks
 * the kernel first need not. 0: it is to be tried. */
int uthread_io_is_empty(int fd);
/* 1: a seccomp filter of the program's has had SIGSYS sent for preadv2() or pwritev2(), so
 * that whoever wants to read or write should call neither. */
int uthread_io_is_trapped(void);
/*
 * 1: who reads there and finds nothing waits, without a time-out, as was asked once;
 * known of connections that uthread_accept4() has made. 0: ask. Ask behind
 * uthread_io_changes(), and pass that on with the answer, if it is yes, to
 * uthread_io_set_blocks(). Who relies on it and is told EAGAIN by uthread_recv_timed() and the
 * like asks once more.
 */
int uthread_io_blocks(int fd);
uint32_t uthread_io_changes(void);
void uthread_io_set_blocks(int fd, uint32_t changes);
/* Its flags or time-outs have changed, and maybe those of others, which are the same file; and:
 * other processes have got it, or it is about to be closed so that nobody tells. */
void uthread_io_changed(int fd);
void uthread_io_given(int fd);
/* A part is sent there. 1: there is room for more, after a wait, maybe, until `deadline` (as
 * uthread_send_timed()). 0: not, or the connection has failed, and the next call is to be told;
 * or it is no TCP socket, and *tcp is 0. */
int uthread_io_goes_on(int fd, const struct timespec *deadline, int *tcp);

/*
 * glibc's robust mutexes that processes share, without inheritance and ceiling: other
 * processes are told of the owner's end also if the whole process is killed.
 * ENOTSUP: it is for glibc's own function, which may be called then: by main and plain
 * pthreads, of what that has taken, or where there can be no thread to keep it. `deadline`
 * may be NULL; `users` is 1, or 0 for who waits for a condition and stays one of the
 * mutex's users.
 */
int uthread_robust_lock(pthread_mutex_t *mutex, clockid_t clock,
			const struct timespec *deadline, int users);
int uthread_robust_trylock(pthread_mutex_t *mutex);
int uthread_robust_unlock(pthread_mutex_t *mutex, int users);
int uthread_robust_consistent(pthread_mutex_t *mutex);
/* It is about to be destroyed, or initialised, perhaps while somebody has it. */
void uthread_robust_forget(pthread_mutex_t *mutex);
/* Around a call of glibc's that gives it back and takes it. 0: the caller has it not, or
 * it is glibc's already, and it is not to be taken back. */
int uthread_robust_lend(pthread_mutex_t *mutex);
void uthread_robust_take_back(pthread_mutex_t *mutex);

/* wait4() and waitid(), as uthread_waitpid(). Of P_PIDFD, and with options that are
 * Linux's alone (__WALL), they are the calls themselves, in the kernel; up to a deadline
 * such look every 20 ms. */
pid_t uthread_wait4(pid_t pid, int *status, int options, struct rusage *usage);
pid_t uthread_wait4_timed(pid_t pid, int *status, int options,
			  struct rusage *usage,
			  const struct timespec *deadline);
/* Not in strict ISO C, where libc leaves the types out. */
#if defined(_POSIX_C_SOURCE) && _POSIX_C_SOURCE >= 200809L
int uthread_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int uthread_waitid_timed(idtype_t type, id_t id, siginfo_t *info, int options,
			 const struct timespec *deadline);
/* As the system call rt_tgsigqueueinfo: what it says of the signal is told to the thread.
 * EPERM: to another than itself it says what only the kernel does (`si_code` from 0 on, or
 * SI_TKILL); else as uthread_sigqueue(). */
int uthread_sigqueueinfo(uthread_t thread, int sig, const siginfo_t *info);
/* A timer as by timer_create() with SIGEV_THREAD_ID: `sig`, with `value`, is for that uthread.
 * Say so when timer_delete() has deleted it. 0; ESRCH, EINVAL as there; ENOTSUP: of a thread's
 * CPU time, or with sanitizers; EAGAIN: no memory, or no thread to wait for it. */
int uthread_timer_create(uthread_t thread, clockid_t clock, int sig,
			 union sigval value, timer_t *timer);
void uthread_timer_deleted(timer_t timer);
/* sigtimedwait(), without a worker where the caller blocks all of the set; `info` and
 * `timeout` may be NULL. */
int uthread_sigtimedwait(const sigset_t *set, siginfo_t *info,
			 const struct timespec *timeout);
#endif

#ifdef __cplusplus
}
#endif
#endif /* UTHREAD_PTHREAD_H */
