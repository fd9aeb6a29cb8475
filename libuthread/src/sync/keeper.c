/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper.c - glibc's robust mutexes that processes share, in uthreads.
 *
 * Such a mutex has the number of its owner's kernel thread in its word, and is on the
 * list that this thread has shown to the kernel. When the thread ends the kernel marks
 * what is on the list and has that number, and who waits in another process goes on with
 * EOWNERDEAD. No kernel thread has a uthread's number. So a process whose uthreads lock
 * such mutexes has one more thread that does nothing else: the keeper, which ends when
 * the process does, however that ends. To other processes it is the owner of all that
 * uthreads have.
 *
 *	lock	the keeper's number, and the kernel's bits
 *	owner	the same, or that it is not consistent, as glibc has it
 *	spins	of no use to glibc in a robust one: which uthread it is; 0 while it is
 *		nobody's
 *	list	on the keeper's, while one of this process's uthreads has it
 *
 * Main has a kernel thread, and plain pthreads are ones: for them it is glibc's own
 * functions that take these mutexes. They see the keeper's number and think it somebody
 * else's, which it is.
 *
 * Invariants:
 *  - The list, and all words of a mutex that is on it, change under `lock`, one mutex at a
 *    time, and `list_op_pending` names that one: whenever the process is killed, the
 *    kernel finds what the keeper has.
 *  - Who is woken and killed before it has the mutex has taken a wake that others need: so
 *    the worker names what it waits for as pending, too, and the kernel wakes the next.
 *  - A uthread that ends gives back what it has as the kernel would.
 *
 * What waits for a condition that processes share gives the mutex back, and takes it, in
 * glibc's own function, which knows the uthread's number only. For that it is lent: it goes
 * to the list of the uthread's struct pthread, which the kernel never sees, and comes back
 * at the end. In between it is nobody's, but for the few steps to and from the wait.
 *
 * Rejected: a keeper for each uthread (a kernel thread each: most have no more than
 * one such mutex at a time, for a moment); the keeper's number in struct pthread during
 * glibc's own functions (by that number others find the uthread, to cancel it or send it a
 * signal); the first thread as the keeper (glibc would take what others have for main's).
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/ksignal.h"
#include "base/nouns.h"
#include "base/small_thread.h"
#include "sched/confine.h"
#include "sync/sync.h"
#include "tls/tls.h"

#include "uthread/futex.h"
#include "uthread/pthread.h"

#define STACK_BYTES (64u << 10)
/* Of `owner`, glibc's. */
#define INCONSISTENT INT_MAX
#define NOT_RECOVERABLE (INT_MAX - 1)

#define REFUSED UINT32_MAX /* by an emulator: the kernel knows no lists */

#define TYPE_OF(m) ((m)->__data.__kind & 3)

/* An entry is the address of `next`, and `prev` lies before it. */
struct entry {
	struct entry *next;
};

static struct {
	uint32_t lock;
	uint32_t made; /* atomic: 1 there is one, or will be */
	uint32_t tid; /* atomic: 0 not yet, REFUSED never; futex */
	struct {
		struct entry *prev;
		struct robust_list_head head;
	} list;
} keeper;

static inline struct entry *head_of_list(void)
{
	return (struct entry *)(void *)&keeper.list.head.list;
}

static inline struct entry *entry_of(pthread_mutex_t *m)
{
	return (struct entry *)(void *)&m->__data.__list.__next;
}

static inline pthread_mutex_t *mutex_of(struct entry *e)
{
	return (pthread_mutex_t *)(void *)((char *)e -
					   offsetof(pthread_mutex_t,
						    __data.__list.__next));
}

static inline struct entry **prev_of(struct entry *e)
{
	return (struct entry **)e - 1;
}

static inline uint32_t *word_of(pthread_mutex_t *m)
{
	return (uint32_t *)&m->__data.__lock;
}

/* Two halves of 16 bits, or one number. */
static inline uint32_t *who_of(pthread_mutex_t *m)
{
	_Static_assert(offsetof(pthread_mutex_t, __data.__spins) + 4 ==
			       offsetof(pthread_mutex_t, __data.__list),
		       "there is room for a number of 32 bits");
	return (uint32_t *)(void *)((char *)m +
				    offsetof(pthread_mutex_t, __data.__spins));
}

static inline bool cas(uint32_t *word, uint32_t *old, uint32_t to)
{
	return __atomic_compare_exchange_n(word, old, to, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* ---- the thread ---- */

static void no_list(void)
{
	struct entry *head = head_of_list();

	memset(&keeper.list, 0, sizeof(keeper.list));
	head->next = *prev_of(head) = head;
	keeper.list.head.futex_offset =
		(long)offsetof(pthread_mutex_t, __data.__lock) -
		(long)offsetof(pthread_mutex_t, __data.__list.__next);
}

static void *keep(void *unused)
{
	const uint64_t all = ~KSIG_LIBC;
	uint32_t never = 0, tid;

	(void)unused;
	ksig_mask(SIG_SETMASK, &all, NULL);
	pthread_setname_np(pthread_self(), "uthread/keeper");
	tid = syscall(SYS_set_robust_list, &keeper.list.head,
		      sizeof(keeper.list.head)) ?
		      REFUSED :
		      (uint32_t)syscall(SYS_gettid);
	store_release(&keeper.tid, tid);
	uthread_futex_wake(&keeper.tid, UTHREAD_FUTEX_ALL, UTHREAD_FUTEX_ANY);
	for (;;)
		futex_wait(&never, 0, NO_DEADLINE);
	return NULL;
}

static bool make_thread(void)
{
	const bool lifted = confine_lift();
	pthread_t t;
	const int err = small_thread(&t, keep, NULL, STACK_BYTES);

	if (lifted)
		confine_again();
	return !err;
}

/* Its number, and if there is none yet one is made; 0: it cannot be had. */
static uint32_t number(void)
{
	uint32_t tid = load_acquire(&keeper.tid), none = 0;

	if (likely(tid))
		return tid == REFUSED ? 0 : tid;
	if (cas(&keeper.made, &none, 1)) {
		no_list();
		if (!make_thread()) {
			store_release(&keeper.made, 0);
			uthread_futex_wake(&keeper.tid, UTHREAD_FUTEX_ALL,
					   UTHREAD_FUTEX_ANY);
			return 0;
		}
	}
	while (!load_acquire(&keeper.tid) && load_acquire(&keeper.made))
		uthread_futex_wait(&keeper.tid, 0, UTHREAD_FUTEX_ANY,
				   CLOCK_MONOTONIC, NULL, 0);
	tid = load_acquire(&keeper.tid);
	return tid == REFUSED ? 0 : tid;
}

int keeper_threads(void)
{
	return (int)load_acquire(&keeper.made);
}

/* The child's thread has none of its parent's mutexes, and no keeper. */
void keeper_forked(void)
{
	memset(&keeper, 0, sizeof(keeper));
}

/* ---- lists ---- */

/* In an order in which the kernel, which goes from one to the next, finds all. */
static void put_on(struct entry *head, struct entry *e)
{
	struct entry *next = head->next;

	*prev_of(e) = head;
	store_relaxed(&e->next, next);
	barrier();
	*prev_of(next) = e;
	store_relaxed(&head->next, e);
	barrier();
}

/* Its neighbours say so, too: it was not made anew, memory and all, on the list. */
static bool is_on(struct entry *e)
{
	struct entry *next = load_relaxed(&e->next), *prev = *prev_of(e);

	return next && prev && prev->next == e && *prev_of(next) == e;
}

static void take_off(struct entry *e)
{
	struct entry *next = e->next, *prev = *prev_of(e);

	if (likely(is_on(e))) {
		*prev_of(next) = prev;
		store_relaxed(&prev->next, next);
		barrier();
	}
	e->next = *prev_of(e) = NULL;
}

/* The same of one that may be on the list and whose memory may be new; and others of that
 * memory: what lies between those before and behind that are as they should be. */
static void cut_out(struct entry *it)
{
	struct entry *const head = head_of_list();
	struct entry *before = head, *behind = head, *e;
	int n = 0;

	for (e = head->next;
	     e != head && e != it && is_on(e) && n < ROBUST_LIST_LIMIT;
	     e = e->next, n++)
		before = e;
	if (e == head)
		return;
	for (e = *prev_of(head), n = 0;
	     e && e != it && e->next == behind && n < ROBUST_LIST_LIMIT;
	     e = *prev_of(e), n++)
		behind = e;
	*prev_of(behind) = before;
	store_relaxed(&before->next, behind);
	barrier();
}

/* From here to done() the caller is alone with all that the keeper has. */
static void begin(pthread_mutex_t *m)
{
	spin_lock(&keeper.lock);
	store_relaxed(&keeper.list.head.list_op_pending,
		      (struct robust_list *)(void *)entry_of(m));
	barrier();
}

static void done(void)
{
	barrier();
	store_relaxed(&keeper.list.head.list_op_pending, NULL);
	spin_unlock(&keeper.lock);
}

/* ---- the mutex, between begin() and done() ---- */

static inline bool is_mine(const struct uthread *me, pthread_mutex_t *m)
{
	return (load_relaxed(word_of(m)) & FUTEX_TID_MASK) ==
		       load_relaxed(&keeper.tid) &&
	       load_relaxed(who_of(m)) == me->id;
}

static void has(const struct uthread *me, pthread_mutex_t *m, int owner)
{
	m->__data.__count = 1;
	m->__data.__owner = owner;
	store_relaxed(who_of(m), me->id);
	put_on(head_of_list(), entry_of(m));
}

/* The word, and one that waits in the kernel for it. */
static void let_go(pthread_mutex_t *m)
{
	uint32_t *word = word_of(m);

	if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) & FUTEX_WAITERS)
		syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* The caller has it already: may it have it once more? -1: it would wait for itself. */
static int again(pthread_mutex_t *m)
{
	switch (TYPE_OF(m)) {
	case PTHREAD_MUTEX_ERRORCHECK_NP:
		return EDEADLK;
	case PTHREAD_MUTEX_RECURSIVE_NP:
		if (m->__data.__count == UINT32_MAX)
			return EAGAIN;
		m->__data.__count++;
		return 0;
	default:
		return -1;
	}
}

/* Take it, with `waiters` in its word; what a lock says, or EBUSY: then the word says, if
 * the caller will wait, that it does, and is *seen. */
static int take(const struct uthread *me, pthread_mutex_t *m, uint32_t waiters,
		int users, uint32_t *seen)
{
	const uint32_t tid = load_relaxed(&keeper.tid);
	uint32_t *word = word_of(m), v = load_relaxed(word);
	int err = is_mine(me, m) ? again(m) : -1;

	if (err >= 0)
		return err;
	for (;;) {
		if (v & FUTEX_OWNER_DIED) {
			if (!cas(word, &v, tid | (v & FUTEX_WAITERS) | waiters))
				continue;
			has(me, m, INCONSISTENT);
			/* The dead one is still counted among its users. */
			m->__data.__nusers -= !users;
			return EOWNERDEAD;
		}
		if (!v) {
			if (cas(word, &v, tid | waiters))
				break;
			continue;
		}
		if (seen && !(v & FUTEX_WAITERS) &&
		    !cas(word, &v, v | FUTEX_WAITERS))
			continue;
		if (seen)
			*seen = v | FUTEX_WAITERS;
		return EBUSY;
	}
	if (m->__data.__owner == NOT_RECOVERABLE) {
		m->__data.__count = 0;
		let_go(m);
		return ENOTRECOVERABLE;
	}
	has(me, m, (int)me->id);
	m->__data.__nusers += (unsigned)users;
	return 0;
}

static void give_back(pthread_mutex_t *m, int users, int owner)
{
	take_off(entry_of(m));
	store_relaxed(who_of(m), 0);
	m->__data.__owner = owner;
	m->__data.__nusers -= (unsigned)users;
	let_go(m);
}

/* ---- waiting in the kernel, where a spare stands in ---- */

/* What this kernel thread has shown to the kernel: glibc's, or NULL. */
static struct robust_list_head *list_of_worker(void)
{
	struct robust_list_head *head = NULL;
	size_t bytes;

	return syscall(SYS_get_robust_list, 0, &head, &bytes) ? NULL : head;
}

static int wait_until(uint32_t *word, uint32_t seen, clockid_t clock,
		      const struct timespec *deadline)
{
	const int op = FUTEX_WAIT_BITSET |
		       (clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);

	if (deadline &&
	    (deadline->tv_nsec < 0 || deadline->tv_nsec >= 1000000000))
		return EINVAL;
	if (deadline && deadline->tv_sec < 0)
		return ETIMEDOUT;
	return syscall(SYS_futex, word, op, seen, deadline, NULL,
		       FUTEX_BITSET_MATCH_ANY) ?
		       errno :
		       0;
}

/* With what it waits for as pending, which it is still when this returns: then the caller
 * takes it. */
static struct robust_list_head *name_pending(pthread_mutex_t *m)
{
	struct robust_list_head *head;

	region_enter(); /* on one worker */
	head = list_of_worker();
	if (head)
		store_relaxed(&head->list_op_pending,
			      (struct robust_list *)(void *)entry_of(m));
	region_leave();
	return head;
}

/* In a region. It may have gone on with another worker, and the one that it waited with
 * may be no more; what stays pending there costs a wake in vain. */
static void none_pending(struct robust_list_head *head)
{
	if (head && head == list_of_worker())
		store_relaxed(&head->list_op_pending, NULL);
}

static int take_in_time(const struct uthread *me, pthread_mutex_t *m,
			clockid_t clock, const struct timespec *deadline,
			int users, uint32_t seen)
{
	struct robust_list_head *head = name_pending(m);
	int err, timed;

	for (;;) {
		timed = wait_until(word_of(m), seen, clock, deadline);
		begin(m);
		err = timed == ETIMEDOUT || timed == EINVAL ?
			      timed :
			      take(me, m, FUTEX_WAITERS, users, &seen);
		if (err == EBUSY) {
			done();
			continue;
		}
		none_pending(head);
		done();
		return err;
	}
}

/* ---- as pthreads have it ---- */

/* The caller, if it is for us to know who has it. */
static struct uthread *who_asks(void)
{
	struct uthread *me = uthread_current();

	return me && uthread_on_own_tls(me) &&
			       !(load_relaxed(&me->flags) & UT_MAIN) ?
		       me :
		       NULL;
}

/* By its number, and not by the keeper's: glibc's functions took it. */
static bool is_by_number(const struct uthread *me, pthread_mutex_t *m)
{
	return (load_relaxed(word_of(m)) & FUTEX_TID_MASK) == me->id;
}

int uthread_robust_lock(pthread_mutex_t *m, clockid_t clock,
			const struct timespec *deadline, int users)
{
	const struct uthread *me = who_asks();
	const int saved = errno;
	uint32_t seen;
	int err;

	if (!me || is_by_number(me, m) || !number())
		return ENOTSUP;
	begin(m);
	err = take(me, m, 0, users, &seen);
	done();
	if (err == EBUSY)
		err = take_in_time(me, m, clock, deadline, users, seen);
	errno = saved;
	return err;
}

int uthread_robust_trylock(pthread_mutex_t *m)
{
	const struct uthread *me = who_asks();
	int err;

	if (!me || is_by_number(me, m) || !number())
		return ENOTSUP;
	begin(m);
	err = take(me, m, 0, 1, NULL);
	done();
	return err;
}

/* What is unlocked and not consistent never will be. */
static int unlock(pthread_mutex_t *m, int users)
{
	const bool recoverable = m->__data.__owner != INCONSISTENT;

	if (TYPE_OF(m) == PTHREAD_MUTEX_RECURSIVE_NP && --m->__data.__count)
		return recoverable ? 0 : ENOTRECOVERABLE;
	give_back(m, users, recoverable ? 0 : NOT_RECOVERABLE);
	return 0;
}

int uthread_robust_unlock(pthread_mutex_t *m, int users)
{
	const struct uthread *me = who_asks();
	const uint32_t tid = load_acquire(&keeper.tid);
	const int saved = errno;
	int err;

	if (!me || !tid || (load_relaxed(word_of(m)) & FUTEX_TID_MASK) != tid)
		return ENOTSUP;
	begin(m);
	err = is_mine(me, m) ? unlock(m, users) : EPERM;
	done();
	errno = saved;
	return err;
}

int uthread_robust_consistent(pthread_mutex_t *m)
{
	const struct uthread *me = who_asks();

	if (!me || !load_acquire(&keeper.tid) || !is_mine(me, m))
		return ENOTSUP;
	if (m->__data.__owner != INCONSISTENT)
		return EINVAL;
	m->__data.__owner = (int)me->id;
	return 0;
}

/* Where nobody has made one yet anything may lie. */
void uthread_robust_forget(pthread_mutex_t *m)
{
	if (!load_acquire(&keeper.tid))
		return;
	spin_lock(&keeper.lock);
	cut_out(entry_of(m));
	spin_unlock(&keeper.lock);
}

/* ---- lending ---- */

/* Who has it goes by another number: the word, and the owner unless that is a mark. */
static void goes_by(pthread_mutex_t *m, uint32_t number)
{
	uint32_t *word = word_of(m), v = load_relaxed(word);

	while (!cas(word, &v, number | (v & ~(uint32_t)FUTEX_TID_MASK)))
		;
	if (m->__data.__owner != INCONSISTENT)
		m->__data.__owner = (int)number;
}

int uthread_robust_lend(pthread_mutex_t *m)
{
	struct uthread *me = who_asks();

	if (!me || !load_acquire(&keeper.tid) || !is_mine(me, m))
		return 0;
	begin(m);
	take_off(entry_of(m));
	put_on(tls_robust_list(me), entry_of(m));
	store_relaxed(who_of(m), 0);
	goes_by(m, me->id);
	done();
	return 1;
}

void uthread_robust_take_back(pthread_mutex_t *m)
{
	struct uthread *me = who_asks();

	if (!me || !is_by_number(me, m))
		return;
	begin(m);
	goes_by(m, load_relaxed(&keeper.tid));
	take_off(entry_of(m));
	put_on(head_of_list(), entry_of(m));
	store_relaxed(who_of(m), me->id);
	done();
}

/* ---- the end of a uthread ---- */

void keeper_abandon(const struct uthread *me)
{
	struct entry *e, *next;
	pthread_mutex_t *m;
	uint32_t *word, v;
	int n = 0;

	if (!load_acquire(&keeper.tid) ||
	    load_relaxed(&head_of_list()->next) == head_of_list())
		return;
	spin_lock(&keeper.lock);
	for (e = head_of_list()->next;
	     e && e != head_of_list() && n < ROBUST_LIST_LIMIT; e = next, n++) {
		next = e->next;
		m = mutex_of(e);
		if (load_relaxed(who_of(m)) != me->id)
			continue;
		take_off(e);
		store_relaxed(who_of(m), 0);
		word = word_of(m);
		v = load_relaxed(word);
		while (!cas(word, &v, (v & FUTEX_WAITERS) | FUTEX_OWNER_DIED))
			;
		if (v & FUTEX_WAITERS)
			syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	spin_unlock(&keeper.lock);
}
