/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread/cancel.h - ending another uthread, shaped like pthread_cancel() and
 * its sisters. <uthread.h> includes it.
 *
 * uthread_cancel() asks; the uthread ends itself, as by
 * uthread_exit(UTHREAD_CANCELED), when it next comes to a cancellation point and
 * lets that happen. Cancellation points are uthread_testcancel(), the waits of
 * condition variables, semaphores, joins and sleeps, all calls that do I/O, and
 * libc's calls that wait, where POSIX says that of pthreads. Mutexes, barriers,
 * once and spin locks are none.
 *
 * uthread_kill() sends a signal to one uthread, whose handler runs on its stack,
 * while it waits too.
 *
 * Errors: 0 or an error number, as in <uthread.h>.
 */
#ifndef UTHREAD_CANCEL_H
#define UTHREAD_CANCEL_H

#include <signal.h>
#include <sys/select.h> /* sigset_t, which <signal.h> leaves out in strict C99 */

#include "../uthread.h"

union sigval;

#ifdef __cplusplus
extern "C" {
#endif

/* What uthread_join() says of one that was cancelled. */
#define UTHREAD_CANCELED ((void *)-1)

enum {
	UTHREAD_CANCEL_ENABLE = 0,
	UTHREAD_CANCEL_DISABLE = 1,
};

enum {
	UTHREAD_CANCEL_DEFERRED = 0, /* at a cancellation point */
	UTHREAD_CANCEL_ASYNCHRONOUS = 1, /* anywhere in its own code */
};

/* Ask it to end. One that waits at a cancellation point is woken at once; what it
 * waited for is not lost. 0 too for one that has ended or is about to. ESRCH: no
 * such handle. */
int uthread_cancel(uthread_t thread);
/* Whether the caller heeds that, at first ENABLE; *old may be NULL. EINVAL:
 * neither of the two. In a plain pthread these three are pthread's. */
int uthread_setcancelstate(int state, int *old);
/* When, at first DEFERRED. */
int uthread_setcanceltype(int type, int *old);
/* A cancellation point that does nothing else. */
void uthread_testcancel(void);

/* ---- signals ---- */

/* A signal for this uthread alone, as pthread_kill(): its handler runs in it, while
 * it waits too; what it blocks waits for it. 0 tests whether it is there, and is
 * said of one that has ended but is not joined. ESRCH: no such handle. EINVAL: no
 * such signal, or libc's own. EAGAIN: too many with a real-time number wait. In a
 * wait the handler comes back to the wait. By siglongjmp() it may leave those for
 * descriptors, children, signals and a time, which end first as if cancelled; not
 * uthread_select(), what helpers do (opening, names, files), or a lock, and none by an
 * exception or uthread_exit(). */
int uthread_kill(uthread_t thread, int sig);
/* The same with a value, as pthread_sigqueue(). */
int uthread_sigqueue(uthread_t thread, int sig, union sigval value);
/* The caller's mask, as pthread_sigmask(), which in a uthread is the same. */
int uthread_sigmask(int how, const sigset_t *set, sigset_t *old);

/* ---- cleanup handlers ---- */

/*
 * uthread_cleanup_push(fn, arg) and uthread_cleanup_pop(execute) stand in one
 * block, like its braces. fn(arg) runs when the uthread ends in between, by
 * cancellation or uthread_exit(), and at the pop if `execute` is not 0. In C++, and
 * in C with -fexceptions, that is a destructor among the others, and runs for an
 * exception, too. Otherwise the handler is listed in the uthread; it then runs
 * before the destructors of its own function's frame and after all that lies
 * deeper. What is listed in a plain pthread runs at its pop only; and a coroutine
 * is not destroyed in between.
 */
struct uthread_cleanup {
	void (*_fn)(void *);
	void *_arg;
	const void *_frame;
	struct uthread_cleanup *_next;
	uthread_t _listed; /* NULL: nowhere */
};

/* The macros'. */
void uthread_cleanup_list(struct uthread_cleanup *cleanup, void (*fn)(void *),
			  void *arg, const void *frame);
void uthread_cleanup_unlist(struct uthread_cleanup *cleanup, int execute);

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && defined(__EXCEPTIONS)
class _uthread_cleanup_scope {
public:
	_uthread_cleanup_scope(void (*fn)(void *), void *arg)
		: fn_(fn), arg_(arg), execute_(1)
	{
	}
	~_uthread_cleanup_scope()
	{
		if (execute_)
			fn_(arg_);
	}
	void set(int execute)
	{
		execute_ = execute;
	}

private:
	_uthread_cleanup_scope(const _uthread_cleanup_scope &);
	_uthread_cleanup_scope &operator=(const _uthread_cleanup_scope &);

	void (*fn_)(void *);
	void *arg_;
	int execute_;
};

#define uthread_cleanup_push(fn, arg) \
	do {                          \
	_uthread_cleanup_scope _uthread_cleanup_here(fn, arg)
#define uthread_cleanup_pop(execute)        \
	_uthread_cleanup_here.set(execute); \
	}                                   \
	while (0)

#elif defined(__EXCEPTIONS)
static inline __attribute__((unused)) void
_uthread_cleanup_leave(struct uthread_cleanup *cleanup)
{
	if (cleanup->_fn)
		cleanup->_fn(cleanup->_arg);
}

#define uthread_cleanup_push(fn, arg)                                \
	do {                                                         \
	struct uthread_cleanup _uthread_cleanup_here __attribute__(( \
		cleanup(_uthread_cleanup_leave))) = { (fn), (arg), 0, 0, 0 }
#define uthread_cleanup_pop(execute)           \
	if (!(execute))                        \
		_uthread_cleanup_here._fn = 0; \
	}                                      \
	while (0)

#else
#define uthread_cleanup_push(fn, arg)                         \
	do {                                                  \
		struct uthread_cleanup _uthread_cleanup_here; \
	uthread_cleanup_list(&_uthread_cleanup_here, fn, arg, \
			     __builtin_frame_address(0))
#define uthread_cleanup_pop(execute)                             \
	uthread_cleanup_unlist(&_uthread_cleanup_here, execute); \
	}                                                        \
	while (0)
#endif

#endif /* UTHREAD_CANCEL_H */
