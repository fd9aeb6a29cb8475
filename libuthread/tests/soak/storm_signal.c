/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_signal.c - masks, handlers and alternate stacks of many uthreads, under
 * timers that send signals all the while. Handlers nest, yield, sleep, post,
 * and are left by siglongjmp(); blocked signals wait for whom they were sent to.
 *
 * Everybody else, other storms included, has the storm's signals blocked, and a
 * uthread lets in at a time what it can do with. A worker that has nothing to
 * run takes them, too: a handler that finds no state there only counts.
 */
#include "soak.h"

#include <poll.h>
#include <setjmp.h>
#include <sys/syscall.h>
#include <sys/time.h>

#define ALT_BYTES ((size_t)64 << 10)
#define ALT_EDGE 64 /* bytes that nobody may touch */

#define SIG_OWN SIGUSR1 /* only ever sent to oneself; so are the next */
#define SIG_NESTS (SIGRTMIN + 1) /* SA_NODEFER */
#define SIG_STACK (SIGRTMIN + 2) /* SA_ONSTACK */
#define SIG_LEAVES (SIGRTMIN + 3)
#define SIG_ALL SIGUSR2 /* to the process, with a post */
#define SIG_VALUE (SIGRTMIN + 4) /* to the process, by sigqueue() */
#define SIG_TIMER (SIGRTMIN + 5) /* to the process, by a timer */

struct mine {
	unsigned own, nests, stacks; /* handled */
	unsigned depth;
	volatile int may_leave;
	volatile unsigned left;
	volatile int open; /* to what is sent to the process */
	sigjmp_buf env;
	char *alt;
	struct soak *s;
};

/* Own TLS: the uthread's. NULL: the handler came to a worker's own context. */
static _Thread_local struct mine *mine;

static sigset_t ours;
static uthread_sem_t posts = UTHREAD_SEM_INITIALIZER(0);
static uint64_t sent, sent_sum, came, came_sum; /* SIG_VALUE */
static uint64_t alarms, elsewhere;

static sigset_t only(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	return set;
}

static void block(int how, int sig)
{
	const sigset_t set = only(sig);

	CHECK(!pthread_sigmask(how, &set, NULL));
}

static uint64_t ours_of(const sigset_t *set)
{
	static const int all[] = { SIGUSR1, SIGUSR2, SIGALRM };
	uint64_t word = 0;

	for (unsigned i = 0; i < 3; i++)
		word |= (uint64_t)sigismember(set, all[i]) << all[i];
	for (int sig = SIGRTMIN + 1; sig <= SIGRTMIN + 5; sig++)
		word |= (uint64_t)sigismember(set, sig) << sig;
	return word;
}

/* What the kernel thread has blocked is what the program was told. */
static void check_mask(const sigset_t *want)
{
	sigset_t told, real;

	sigemptyset(&real);
	CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &told));
	CHECK_EQ(ours_of(&told), ours_of(want));
	CHECK(!syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &real, 8));
	CHECK_EQ(ours_of(&real), ours_of(want));
}

/* ---- what goes on in handlers ---- */

static void dawdle(struct soak *s)
{
	switch (soak_random(s, 8)) {
	case 0:
		uthread_yield();
		break;
	case 1:
		uthread_sleep(50000);
		break;
	case 2:
		usleep(100);
		break;
	default:
		soak_spin(soak_random(s, 20000));
	}
}

static void on_own(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	CHECK(sig == SIG_OWN && si->si_signo == sig && mine);
	CHECK_EQ(si->si_pid, getpid());
	mine->own++;
	dawdle(mine->s);
}

static void on_nests(int sig)
{
	struct mine *m = mine;
	const unsigned depth = m->depth, nests = m->nests;

	m->nests++;
	if (depth) {
		m->depth--;
		dawdle(m->s);
		CHECK(!raise(sig));
		CHECK_EQ(m->nests, nests + 1 + depth);
	}
	CHECK(mine == m);
}

static void on_its_stack(int sig)
{
	struct mine *m = mine;
	volatile char here[500];
	stack_t now;

	(void)sig;
	memset((char *)here, 1, sizeof(here));
	CHECK(&here[0] > m->alt + ALT_EDGE && &here[0] < m->alt + ALT_BYTES);
	CHECK(!sigaltstack(NULL, &now));
	CHECK_EQ(now.ss_flags, SS_ONSTACK);
	dawdle(m->s);
	m->stacks++;
	if (m->may_leave) {
		m->may_leave = 0;
		m->left++;
		siglongjmp(m->env, 1);
	}
	CHECK(mine == m && here[499] == 1);
}

static void on_leaves(int sig)
{
	struct mine *m = mine;

	(void)sig;
	CHECK(m);
	dawdle(m->s);
	m->left++;
	siglongjmp(m->env, 1);
}

static void on_alarm(int sig)
{
	struct mine *m = mine;

	(void)sig;
	add(&alarms, 1);
	if (!m) {
		add(&elsewhere, 1);
	} else if (m->may_leave) {
		m->may_leave = 0;
		m->left++;
		siglongjmp(m->env, 1);
	}
}

static void on_all(int sig)
{
	(void)sig;
	CHECK_EQ(uthread_sem_post(&posts), 0);
}

static void on_value(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	CHECK(sig == SIG_VALUE && si->si_code == SI_QUEUE);
	CHECK(!mine || mine->open);
	add(&came_sum, (uint64_t)(unsigned)si->si_value.sival_int);
	add(&came, 1);
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = handler;
	sa.sa_flags = flags;
	CHECK(!sigaction(sig, &sa, NULL));
	sigaddset(&ours, sig);
}

static void handle_info(int sig, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = handler;
	sa.sa_flags = SA_SIGINFO | SA_RESTART;
	CHECK(!sigaction(sig, &sa, NULL));
	sigaddset(&ours, sig);
}

static void setup(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL,
			       .sigev_signo = SIG_TIMER };
	struct itimerspec often = { { 0, 700000 }, { 0, 700000 } };
	struct itimerval interval = { { 0, 1000 }, { 0, 1000 } };
	timer_t timer;

	handle_info(SIG_OWN, on_own);
	handle(SIG_NESTS, on_nests, SA_NODEFER);
	handle(SIG_STACK, on_its_stack, SA_ONSTACK);
	handle(SIG_LEAVES, on_leaves, 0);
	handle(SIG_ALL, on_all, SA_RESTART);
	handle_info(SIG_VALUE, on_value);
	handle(SIG_TIMER, on_alarm, 0);
	handle(SIGALRM, on_alarm, SA_NODEFER);
	CHECK(!pthread_sigmask(SIG_BLOCK, &ours, NULL));
	CHECK(!timer_create(CLOCK_MONOTONIC, &ev, &timer));
	CHECK(!timer_settime(timer, 0, &often, NULL));
	CHECK(!setitimer(ITIMER_REAL, &interval, NULL));
}

/* ---- what a uthread does ---- */

static void sends_to_itself(struct soak *s, struct mine *m)
{
	const unsigned own = m->own, nests = m->nests;

	block(SIG_UNBLOCK, SIG_OWN);
	CHECK(!raise(SIG_OWN));
	CHECK_EQ(m->own, own + 1);
	CHECK(!pthread_kill(pthread_self(), SIG_OWN));
	CHECK_EQ(m->own, own + 2);
	block(SIG_UNBLOCK, SIG_NESTS);
	m->depth = soak_random(s, 5);
	CHECK_EQ(raise(SIG_NESTS), 0);
	CHECK_EQ(m->depth, 0);
	CHECK(m->nests > nests);
}

/* Blocked: it waits, and comes where it is let in or waited for. */
static void waits_for_its_own(struct soak *s, struct mine *m)
{
	const struct timespec t = { 60, 0 };
	const sigset_t own = only(SIG_OWN);
	const unsigned before = m->own;
	siginfo_t si;
	sigset_t set;
	int sig = 0;

	block(SIG_BLOCK, SIG_OWN);
	CHECK(!raise(SIG_OWN));
	dawdle(s);
	CHECK_EQ(m->own, before);
	CHECK(!sigpending(&set));
	CHECK_EQ(sigismember(&set, SIG_OWN), 1);
	sigemptyset(&set);
	switch (soak_random(s, 6)) {
	case 0:
		CHECK(!sigwait(&own, &sig));
		CHECK_EQ(sig, SIG_OWN);
		break;
	case 1:
		CHECK_EQ(sigwaitinfo(&own, &si), SIG_OWN);
		CHECK_EQ(si.si_signo, SIG_OWN);
		break;
	case 2:
		CHECK_EQ(sigtimedwait(&own, NULL, &t), SIG_OWN);
		break;
	case 3:
		set = ours;
		sigdelset(&set, SIG_OWN);
		CHECK_EQ(sigsuspend(&set), -1);
		CHECK_EQ(m->own, before + 1);
		break;
	case 4:
		set = ours;
		sigdelset(&set, SIG_OWN);
		CHECK_EQ(ppoll(NULL, 0, &t, &set), -1);
		CHECK_EQ(errno, EINTR);
		CHECK_EQ(m->own, before + 1);
		break;
	default:
		block(SIG_UNBLOCK, SIG_OWN);
		CHECK_EQ(m->own, before + 1);
	}
}

static void uses_its_stack(struct soak *s, struct mine *m)
{
	stack_t ss = { .ss_sp = m->alt + ALT_EDGE,
		       .ss_size = ALT_BYTES - 2 * ALT_EDGE },
		none = { .ss_flags = SS_DISABLE }, old;
	const unsigned stacks = m->stacks;

	memset(m->alt, 'x', ALT_EDGE);
	memset(m->alt + ALT_BYTES - ALT_EDGE, 'y', ALT_EDGE);
	CHECK(!sigaltstack(&ss, &old));
	CHECK_EQ(old.ss_flags, SS_DISABLE);
	block(SIG_UNBLOCK, SIG_STACK);
	CHECK(!raise(SIG_STACK));
	CHECK_EQ(m->stacks, stacks + 1);
	if (!sigsetjmp(m->env, 1)) {
		m->may_leave = 1;
		CHECK(!raise(SIG_STACK));
		CHECK(0);
	}
	CHECK(!m->may_leave);
	dawdle(s);
	CHECK(!raise(SIG_STACK));
	CHECK_EQ(m->stacks, stacks + 3);
	CHECK(!sigaltstack(&none, &old));
	CHECK(old.ss_sp == ss.ss_sp && !old.ss_flags);
	for (size_t i = 0; i < ALT_EDGE; i++)
		CHECK(m->alt[i] == 'x' && m->alt[ALT_BYTES - 1 - i] == 'y');
}

static void leaves_by_itself(struct soak *s, struct mine *m)
{
	volatile unsigned n = 1 + soak_random(s, 4);
	const unsigned left = m->left, all = n;
	sigset_t before;

	block(SIG_UNBLOCK, SIG_LEAVES);
	CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &before));
	while (n) {
		if (!sigsetjmp(m->env, 1)) {
			CHECK(!raise(SIG_LEAVES));
			CHECK(0);
		}
		n--;
		check_mask(&before);
		dawdle(s);
	}
	check_mask(&before);
	CHECK_EQ(m->left, left + all);
}

/* Wherever a timer's signal finds it: where it computes, yields, or sleeps. */
static void is_torn_away(struct soak *s, struct mine *m)
{
	const struct timespec t = { 0, 3000000 };
	const unsigned left = m->left;
	const sigset_t before = ours;
	volatile unsigned turns = 0;
	const int sig = soak_random(s, 2) ? SIGALRM : SIG_TIMER;
	const unsigned how = soak_random(s, 4);
	sigset_t set = ours;

	if (!sigsetjmp(m->env, 1)) {
		m->may_leave = 1;
		block(SIG_UNBLOCK, sig);
		sigdelset(&set, sig);
		while (turns++ < 300) {
			if (how == 0)
				soak_spin(5000);
			else if (how == 1)
				uthread_yield();
			else if (how == 2)
				nanosleep(&t, NULL);
			else
				ppoll(NULL, 0, &t, &set);
			if (soak_stopping())
				break;
		}
		m->may_leave = 0;
	}
	CHECK(!m->may_leave && m->left - left <= 1);
	CHECK(!pthread_sigmask(SIG_SETMASK, &before, NULL));
	check_mask(&before);
}

static void lets_all_in(struct soak *s, struct mine *m)
{
	const unsigned n = 1 + soak_random(s, 10);
	struct timespec t;
	union sigval v;
	int err;

	m->may_leave = 0;
	m->open = 1;
	block(SIG_UNBLOCK, SIG_VALUE);
	for (unsigned i = 0; i < n; i++) {
		v.sival_int = (int)soak_random(s, 1000000);
		if (!sigqueue(getpid(), SIG_VALUE, v)) {
			add(&sent_sum, (uint64_t)v.sival_int);
			add(&sent, 1);
		}
		if (soak_random(s, 3) == 0)
			dawdle(s);
	}
	/* It posts whoever takes it: us, another, or nobody's context. Two that
	 * are sent at the same time may be one. */
	block(SIG_UNBLOCK, SIG_ALL);
	do {
		CHECK(!kill(getpid(), SIG_ALL));
		t = test_in(20 * MS);
		err = uthread_sem_timedwait(&posts, &t);
	} while (err == ETIMEDOUT);
	CHECK_EQ(err, 0);
}

static void has_a_mask(struct soak *s, struct mine *m)
{
	static const int all[] = { SIGUSR1, SIGUSR2, SIGALRM };
	sigset_t set;

	m->open = 1;
	for (int n = 0; n < 5; n++) {
		sigemptyset(&set);
		for (unsigned i = 0; i < 3; i++)
			if (soak_random(s, 2))
				sigaddset(&set, all[i]);
		for (int sig = SIGRTMIN + 1; sig <= SIGRTMIN + 5; sig++)
			if (soak_random(s, 2))
				sigaddset(&set, sig);
		if (soak_random(s, 2))
			sigaddset(&set, SIGURG); /* the tick's */
		CHECK(!pthread_sigmask(SIG_SETMASK, &set, NULL));
		dawdle(s);
		check_mask(&set);
	}
}

static void round_of_signal(struct soak *s)
{
	static void (*const what[])(struct soak *, struct mine *) = {
		sends_to_itself,  waits_for_its_own, uses_its_stack,
		leaves_by_itself, is_torn_away,	     lets_all_in,
		has_a_mask,
	};
	struct mine *m = (struct mine *)s->state;

	what[soak_random(s, sizeof(what) / sizeof(what[0]))](s, m);
	CHECK(mine == m);
	m->may_leave = 0;
	CHECK(!pthread_sigmask(SIG_SETMASK, &ours, NULL));
	m->open = 0;
	check_mask(&ours);
}

static void begin(struct soak *s)
{
	struct mine *m = (struct mine *)calloc(1, sizeof(*m));

	CHECK(m);
	m->alt = (char *)malloc(ALT_BYTES);
	CHECK(m->alt);
	m->s = s;
	s->state = m;
	mine = m;
	check_mask(&ours); /* as who created us had it */
}

static void end(struct soak *s)
{
	struct mine *m = (struct mine *)s->state;

	mine = NULL;
	free(m->alt);
	free(m);
}

/* What was sent to the process has come to somebody, once. */
static void finish(void)
{
	const sigset_t values = only(SIG_VALUE);

	CHECK(!pthread_sigmask(SIG_UNBLOCK, &values, NULL));
	while (load(&came) < load(&sent))
		usleep(1000);
	CHECK_EQ(came, sent);
	CHECK_EQ(came_sum, sent_sum);
	CHECK(alarms > 0);
}

STORM(signal, .uthreads = 100, .rounds = 20, .setup = setup, .begin = begin,
      .round = round_of_signal, .end = end, .finish = finish)
