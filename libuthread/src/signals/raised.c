/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raised.c - signals that a uthread has sent to itself while they are blocked.
 *
 * They would wait at the kernel thread, and come to somebody else; here they
 * wait for their uthread. Of an ordinary signal one waits at most, as ever; of
 * those with a real-time number all, in order, with their values. raise() may
 * be called in a handler, so memory is not asked for: there are RAISED_MAX
 * places, in the whole process, and who finds none has EAGAIN, as where the
 * kernel's queue is full. Without a place an ordinary signal waits all the same,
 * as the bit in `raised`.
 *
 * SIGPIPE and SIGXFSZ are the kernel's, for the kernel thread whose call has failed, and
 * nobody tells whose that was: by libc, by an instruction of the program's own, by a helper
 * of libc's. While the uthread stays it finds them there, as one does that asks at once
 * (sigtimedwait()) whether its write has made one. Who comes after it and lets them in must
 * not have them: a program would end because a thread that blocks SIGPIPE lost its reader.
 * So they are forgotten then (raised_left_behind()).
 *
 * What main had sent to itself as a pthread, before there were uthreads, comes here then;
 * and all of it goes back to the kernel thread for who becomes another program, which
 * has it from there.
 *
 * Only its uthread touches its list, in regions, where no handler comes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/san.h"
#include "signals/signals.h"

#if !UTHREAD_SAN

#define RAISED_MAX 256 /* that wait; and as many that the kernel has had */
#define PLACES (2 * RAISED_MAX)
#define WORDS (PLACES / 64)

struct raised {
	struct raised *next;
	siginfo_t si;
	struct uthread *whose; /* in a worker's `strays` */
	uint32_t id; /* the name that it has */
	bool to_process;
};

static struct raised places[PLACES] LARGE;
static uint64_t taken[WORDS]; /* atomic: a bit for each */

static struct raised *place_find(int words)
{
	uint64_t was, bit;
	int i;

	for (i = 0; i < words; i++) {
		was = load_relaxed(&taken[i]);
		while (~was) {
			bit = ~was & -~was;
			if (__atomic_compare_exchange_n(
				    &taken[i], &was, was | bit, false,
				    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return &places[i * 64 + __builtin_ctzll(bit)];
		}
	}
	return NULL;
}

static void place_put(struct raised *r)
{
	const size_t i = (size_t)(r - places);

	__atomic_fetch_and(&taken[i / 64], ~(1ull << i % 64), __ATOMIC_RELEASE);
}

static struct raised *place_of(const siginfo_t *si, bool to_process, int words)
{
	struct raised *r = place_find(words);

	if (r) {
		r->si = *si;
		r->to_process = to_process;
	}
	return r;
}

struct raised *raised_place_of(const siginfo_t *si, bool to_process)
{
	return place_of(si, to_process, WORDS);
}

static void say(siginfo_t *si, int sig, int code, union sigval value)
{
	memset(si, 0, sizeof(*si));
	si->si_signo = sig;
	si->si_code = code;
	si->si_pid = getpid();
	si->si_uid = getuid();
	si->si_value = value;
}

struct raised *raised_place(int sig, int code, union sigval value)
{
	siginfo_t si;

	say(&si, sig, code, value);
	return place_of(&si, false, WORDS / 2);
}

void raised_push(struct raised **first, struct raised *r)
{
	r->next = load_relaxed(first);
	while (!__atomic_compare_exchange_n(first, &r->next, r, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

void raised_take_over(struct uthread *me, struct raised **first)
{
	struct raised *r = __atomic_exchange_n(first, NULL, __ATOMIC_ACQUIRE);
	struct raised *next, *turned = NULL, **last;

	for (; r; r = next) {
		next = r->next;
		r->next = turned;
		turned = r;
	}
	for (last = &me->raised_first; *last;)
		last = &(*last)->next;
	for (r = turned; r; r = next) {
		next = r->next;
		if (r->si.si_signo < SIGRTMIN &&
		    me->raised & KSIG_BIT(r->si.si_signo)) {
			place_put(r); /* one of these at most */
			continue;
		}
		r->next = NULL;
		*last = r;
		last = &r->next;
		me->raised |= KSIG_BIT(r->si.si_signo);
	}
}

void raised_set_whose(struct raised *r, struct uthread *ut, uint32_t id)
{
	r->whose = ut;
	r->id = id;
}

struct uthread *raised_stray(struct raised **first, siginfo_t *si, uint32_t *id)
{
	struct raised *r = load_acquire(first);
	struct uthread *ut;

	/* Only this kernel thread takes, in no handler; and these add. */
	while (r &&
	       !__atomic_compare_exchange_n(first, &r, r->next, false,
					    __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		;
	if (!r)
		return NULL;
	*si = r->si;
	ut = r->whose;
	*id = r->id;
	place_put(r);
	return ut;
}

/* Its thread ends. What was for the process is for another one then. */
static void drop(struct raised *r)
{
	if (r->to_process)
		handler_send_back(&r->si);
	place_put(r);
}

void raised_drop(struct raised **first)
{
	struct raised *r = __atomic_exchange_n(first, NULL, __ATOMIC_ACQUIRE);
	struct raised *next;

	for (; r; r = next) {
		next = r->next;
		drop(r);
	}
}

static int add(struct uthread *me, const siginfo_t *si, int words)
{
	const int sig = si->si_signo;
	const bool queued = sig >= SIGRTMIN;
	struct raised *r, **last;
	int err = 0;

	region_enter();
	if (queued || !(me->raised & KSIG_BIT(sig))) {
		r = place_of(si, false, words);
		if (r) {
			for (last = &me->raised_first; *last;)
				last = &(*last)->next;
			r->next = NULL;
			*last = r;
		}
		if (r || !queued)
			me->raised |= KSIG_BIT(sig);
		else
			err = EAGAIN;
	}
	region_leave();
	return err;
}

int raised_add(struct uthread *me, int sig, int code, union sigval value)
{
	siginfo_t si;

	say(&si, sig, code, value);
	return add(me, &si, WORDS / 2);
}

int raised_add_info(struct uthread *me, const siginfo_t *si)
{
	return add(me, si, WORDS);
}

/* Off its list; NULL: it had no place. *more: another of the same waits. */
static struct raised *take(struct uthread *me, int sig, bool *more)
{
	struct raised **at = &me->raised_first, *r, *next;

	while (*at && (*at)->si.si_signo != sig)
		at = &(*at)->next;
	r = *at;
	*more = false;
	if (!r)
		return NULL;
	*at = r->next;
	for (next = r->next; next; next = next->next)
		*more |= next->si.si_signo == sig;
	return r;
}

int raised_take(struct uthread *me, uint64_t set, siginfo_t *si)
{
	const uint64_t some = me->raised & set;
	struct raised *r;
	bool more;
	int sig;

	if (!some)
		return 0;
	region_enter();
	sig = __builtin_ctzll(some) + 1;
	r = take(me, sig, &more);
	if (!more)
		me->raised &= ~KSIG_BIT(sig);
	if (r) {
		*si = r->si;
		place_put(r);
	} else {
		say(si, sig, SI_TKILL, (union sigval){ 0 });
	}
	region_leave();
	return sig;
}

#define LINE 64 /* of those wanted, and more */

/* What waits at the calling kernel thread and not at the process, if that can be read. The
 * groups stand before it, 65536 at most. */
static uint64_t at_kernel_thread(void)
{
	static const char name[] = "\nSigPnd:";
	char text[2048], *at = NULL;
	size_t have = 0, keep;
	ssize_t n;
	int fd;

	fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/status",
			  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	while ((n = syscall(SYS_read, fd, text + have,
			    sizeof(text) - 1 - have)) > 0) {
		have += (size_t)n;
		text[have] = 0;
		at = strstr(text, name);
		if (at && strchr(at + 1, '\n'))
			break;
		at = NULL;
		keep = have < LINE ? have : LINE;
		memmove(text, text + have - keep, keep);
		have = keep;
	}
	syscall(SYS_close, fd);
	return at ? strtoull(at + sizeof(name) - 1, NULL, 16) : 0;
}

/* One for which there is no place stays where it was. False: that is all. */
static bool adopt(struct uthread *me, uint64_t some)
{
	const struct timespec now = { 0 };
	siginfo_t si;
	struct raised *r;

	if (syscall(SYS_rt_sigtimedwait, &some, &si, &now, sizeof(some)) <= 0)
		return false;
	if (sent_to_process(me, si.si_signo, si.si_code, si.si_value))
		return true;
	r = raised_place_of(&si, false);
	if (r)
		raised_push(&me->sent, r);
	else
		syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid),
			si.si_signo, &si);
	return r;
}

void raised_adopt(struct uthread *me)
{
	const uint64_t mask = mask_current(me);
	const int saved = errno;
	uint64_t some = 0;

	if (!syscall(SYS_rt_sigpending, &some, sizeof(some)) &&
	    unlikely(some & mask)) {
		while ((some = at_kernel_thread() & mask) &&
		       adopt(me, some & -some))
			;
		raised_take_over(me, &me->sent);
	}
	errno = saved;
}

static void send_again(siginfo_t *si, struct uthread *whose)
{
	whose_say(si, whose);
	syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid),
		si->si_signo, si);
}

/* One of `*ahead` that waits at the calling kernel thread: not at the process, whose come
 * when there is no other. */
static struct raised *take_back(uint64_t *ahead)
{
	const struct timespec now = { 0 };
	struct raised *r = NULL;
	struct uthread *ut;
	uint64_t some, sig;
	siginfo_t si;
	bool gone;

	while (!r && (some = at_kernel_thread() & *ahead)) {
		sig = some & -some;
		if (syscall(SYS_rt_sigtimedwait, &sig, &si, &now,
			    sizeof(sig)) <= 0)
			break;
		ut = whose_is(&si, &gone);
		if (gone)
			continue;
		r = raised_place_of(&si, false);
		if (r) {
			r->next = NULL;
			r->whose = ut;
		} else {
			send_again(&si, ut);
			*ahead &= ~sig;
		}
	}
	return r;
}

static bool waits_already(const struct uthread *me, const struct raised *r)
{
	return r->si.si_signo < SIGRTMIN &&
	       me->raised & KSIG_BIT(r->si.si_signo);
}

void raised_take_back(struct uthread *me, uint64_t ahead)
{
	struct raised *mine = NULL, **last = &mine, *r;
	struct raised *rest = NULL, **last_rest = &rest;
	const int saved = errno;
	uint64_t some = 0;

	if (syscall(SYS_rt_sigpending, &some, sizeof(some)) || !(some & ahead))
		return;
	while ((r = take_back(&ahead))) {
		if (r->whose != me) {
			*last_rest = r;
			last_rest = &r->next;
		} else if (waits_already(me, r)) {
			place_put(r);
		} else {
			*last = r;
			last = &r->next;
		}
	}
	/* They were sent before what waits here. */
	*last = me->raised_first;
	me->raised_first = mine;
	for (r = mine; r; r = r->next)
		me->raised |= KSIG_BIT(r->si.si_signo);
	for (; rest; rest = r) {
		r = rest->next;
		send_again(&rest->si, rest->whose);
		place_put(rest);
	}
	errno = saved;
}

/* Taken from the kernel thread: one that was sent goes on to whom it is for. */
static void pass_on_or_forget(siginfo_t *si)
{
	struct uthread *ut;
	bool gone;

	ut = whose_is(si, &gone);
	if (ut && !gone)
		whose_pass_on(ut, si);
	else if (!ut && (si->si_code != SI_USER || si->si_pid != getpid()))
		send_again(si, NULL);
}

void raised_left_behind(uint64_t lets_in)
{
	const struct timespec now = { 0 };
	const int saved = errno;
	uint64_t some = 0, sig;
	siginfo_t si;

	if (!syscall(SYS_rt_sigpending, &some, sizeof(some)) &&
	    unlikely(some & lets_in)) {
		some = at_kernel_thread() & lets_in;
		for (; some; some &= some - 1) {
			sig = some & -some;
			if (syscall(SYS_rt_sigtimedwait, &sig, &si, &now,
				    sizeof(sig)) > 0)
				pass_on_or_forget(&si);
		}
	}
	errno = saved;
}

void raised_release(struct uthread *me)
{
	const uint64_t mask = mask_current(me);
	siginfo_t si;

	while (unlikely(me->raised & mask) && raised_take(me, mask, &si))
		syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid),
			si.si_signo, &si);
}

void raised_forget(struct uthread *me)
{
	struct raised *r;

	me->raised = 0;
	while ((r = me->raised_first)) {
		me->raised_first = r->next;
		drop(r);
	}
}

void raised_forked(struct uthread *me)
{
	if (me) {
		me->raised = 0;
		me->raised_first = NULL;
		me->sent = NULL;
		me->sent_bits = 0;
	}
	memset(taken, 0, sizeof(taken));
}

#else

void raised_adopt(struct uthread *me)
{
	(void)me;
}

void raised_release(struct uthread *me)
{
	(void)me;
}

void raised_forget(struct uthread *me)
{
	(void)me;
}

#endif
