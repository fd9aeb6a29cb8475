/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.h - for who defines a call of libc's that sleeps (calls.c): libc's own,
 * what a tick did to it, and the time that is left.
 */
#undef _FORTIFY_SOURCE /* its inline functions have the same names */

#ifndef UTHREAD_CALLS_H
#define UTHREAD_CALLS_H

#include <limits.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <threads.h>
#include <unistd.h>

#include "base/interpose.h"
#include "base/san.h"
#include "preempt/preempt.h"

/* All is weak: a program that is linked with the archive may have its own. */
#define WEAK EXPORT __attribute__((weak))
/* Another name of the same. */
#define SAME(other, name) \
	EXPORT __typeof__(name) other __attribute__((weak, alias(#name)))

void __chk_fail(void) __attribute__((noreturn));

/* ---- libc's ---- */

#define CALLS(F)           \
	F(poll)            \
	F(ppoll)           \
	F(select)          \
	F(pselect)         \
	F(epoll_wait)      \
	F(epoll_pwait)     \
	F(epoll_pwait2)    \
	F(nanosleep)       \
	F(clock_nanosleep) \
	F(usleep)          \
	F(sleep)           \
	F(thrd_sleep)      \
	F(semop)           \
	F(semtimedop)      \
	F(msgsnd)          \
	F(msgrcv)          \
	F(sem_wait)        \
	F(sem_timedwait)   \
	F(sem_clockwait)   \
	F(aio_suspend)     \
	F(read)            \
	F(write)           \
	F(readv)           \
	F(writev)          \
	F(recv)            \
	F(recvfrom)        \
	F(recvmsg)         \
	F(recvmmsg)        \
	F(send)            \
	F(sendto)          \
	F(sendmsg)         \
	F(sendmmsg)        \
	F(accept)          \
	F(accept4)         \
	F(connect)         \
	F(setsockopt)

/* An older glibc has no epoll_pwait2(), and its headers do not name it. */
int epoll_pwait2(int fd, struct epoll_event *events, int n,
		 const struct timespec *timeout, const sigset_t *mask);
int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until);
/* <aio.h> gives it another name where files are large. */
struct aiocb;
int aio_suspend(const struct aiocb *const requests[], int n,
		const struct timespec *timeout);

extern struct calls_libc {
#define F(name) __typeof__(name) *name;
	CALLS(F)
#undef F
} calls_libc;

#define LIBC(name)                 \
	(likely(calls_libc.name) ? \
		 calls_libc.name : \
		 (NEXT(calls_libc.name, #name), calls_libc.name))

/* ---- a call and its ticks ---- */

/* It is a cancellation point: act, unless it is the runtime's own call. */
void call_cancelled(struct call *c);

#define CALLS_A_LOOK 4

/* Others wait for descriptors, maybe, and no tick need come for them. */
void call_looks(struct uthread *me);

static inline void call_leave(struct call *c)
{
	if (c->me)
		store_relaxed(&c->me->call, c->outer);
}

static inline void call_enter(struct call *c, long nr, bool point)
{
	struct uthread *me = uthread_current();

	c->me = me && rt.tick_ns ? me : NULL;
	if (!c->me)
		return;
	if (unlikely(!(++me->calls % CALLS_A_LOOK)))
		call_looks(me);
	c->nr = nr;
	c->saved = errno;
	c->ticked = c->late = c->looks = c->for_any = false;
	c->handled = load_relaxed(&me->handled);
	c->interrupts = load_relaxed(&me->interrupts);
	c->outer = me->call;
	c->point = point;
	barrier(); /* pairs: call_ticked(), same CPU */
	store_relaxed(&me->call, c);
	barrier(); /* pairs: asked_on_tick(), same CPU */
	if (unlikely(load_relaxed(&me->flags) & UT_ASK_CANCEL) && point)
		call_cancelled(c);
}

/* Unwinding leaves it, too. */
#define CALL(c, nr)                                         \
	struct call c __attribute__((cleanup(call_leave))); \
	call_enter(&c, nr, true)
/* One that is no cancellation point. */
#define CALL_NO_POINT(c, nr)                                \
	struct call c __attribute__((cleanup(call_leave))); \
	call_enter(&c, nr, false)

/* Somebody waits for the caller's worker, which is not stuck already: what is
 * done before the call sleeps is worth it. */
static inline bool call_is_in_the_way(const struct call *c)
{
	const struct worker *w = worker_current();

	return c->me &&
	       unlikely(load_relaxed(&w->count) |
			load_relaxed(&rt.global_count)) &&
	       !worker_is_stuck(w);
}

/* It will sleep, as far as one can know: its worker is handed over at once. */
static inline void call_sleeps(const struct call *c)
{
	if (call_is_in_the_way(c))
		spare_hand_over(c->nr);
}

/*
 * The same, unless the descriptor is ready, or such that nobody waits. Beyond the
 * limit of spares, or where somebody waits who is bound there, it waits here as a
 * uthread does: not for calls with a time-out. False: a handler has ended the
 * call, and errno says so.
 */
bool call_waits_for(const struct call *c, int fd, short events);

static inline bool call_may_wait_for(const struct call *c, int fd, short events)
{
	return !call_is_in_the_way(c) || call_waits_for(c, fd, events);
}

/* It failed with `error`. Because of a tick, or a signal that is another's, alone? Then
 * it is as if it had not been called. */
bool call_was_ticked(struct call *c, int error);

static inline bool again(struct call *c)
{
	return unlikely(call_was_ticked(c, errno));
}

/* ---- the time that is left ---- */

#define NS_PER_S 1000000000u

static inline uint64_t timespec_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec > UINT64_MAX / NS_PER_S - 1 ?
		       NO_DEADLINE :
		       (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
}

static inline uint64_t later(uint64_t now, uint64_t by)
{
	return by > NO_DEADLINE - now ? NO_DEADLINE : now + by;
}

static inline uint64_t left(uint64_t until, uint64_t now)
{
	return until > now ? until - now : 0;
}

static inline struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S),
				  .tv_nsec = (long)(ns % NS_PER_S) };
}

#endif
