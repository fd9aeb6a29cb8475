/* SPDX-License-Identifier: Apache-2.0 */
/* test_signals.c - signals to the process while main waits; actions that change. */
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

static sem_t never;
static int over; /* atomic: main has seen enough */

static void nothing(int sig)
{
	(void)sig;
}

static void handles(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa = { .sa_handler = fn, .sa_flags = flags };

	IS(sigaction(sig, &sa, NULL), 0);
}

static int is_over(void)
{
	return __atomic_load_n(&over, __ATOMIC_ACQUIRE);
}

/* ---- main's waits end ---- */

/* Again and again: one that comes before main waits ends nothing. */
static void *kills(void *arg)
{
	while (!is_over()) {
		IS(kill(getpid(), SIGUSR1), 0);
		usleep(2000);
	}
	return arg;
}

/* The same while it has a kernel thread to itself, which may be main's. */
static void *kills_and_computes(void *arg)
{
	volatile int n;

	while (!is_over()) {
		IS(kill(getpid(), SIGUSR1), 0);
		for (n = 0; n < 1000000; n++)
			;
	}
	return arg;
}

static void in_sem_wait(void)
{
	IS(sem_wait(&never), -1);
	IS(errno, EINTR);
}

static void in_sem_timedwait(void)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 1000000);

	IS(sem_timedwait(&never, &at), -1);
	IS(errno, EINTR);
}

static void in_read(void)
{
	int pipe_of[2];
	char c;

	IS(pipe(pipe_of), 0);
	IS(read(pipe_of[0], &c, 1), -1);
	IS(errno, EINTR);
	close(pipe_of[0]);
	close(pipe_of[1]);
}

static void test_interrupts(void *(*sender)(void *), int senders)
{
	void (*const waits[])(void) = { in_sem_wait, in_sem_timedwait,
					in_read };
	pthread_t t[4];
	int i, k;

	handles(SIGUSR1, nothing, 0);
	for (i = 0; i < 9; i++) {
		__atomic_store_n(&over, 0, __ATOMIC_RELEASE);
		for (k = 0; k < senders; k++)
			t[k] = start(sender, NULL);
		waits[i % 3]();
		__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
		for (k = 0; k < senders; k++)
			pthread_join(t[k], NULL);
	}
}

/* ---- one that main blocks is others' ---- */

static pthread_t handler;
static sem_t handled;

static void says_who(int sig)
{
	(void)sig;
	handler = pthread_self();
	sem_post(&handled);
}

static void *lets_in(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	while (!is_over())
		usleep(1000);
	return arg;
}

static void test_blocked(void)
{
	sigset_t set, old;
	pthread_t t;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	handles(SIGUSR2, says_who, SA_RESTART);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	__atomic_store_n(&over, 0, __ATOMIC_RELEASE);
	t = start(lets_in, NULL);
	IS(kill(getpid(), SIGUSR2), 0);
	while (sem_wait(&handled))
		IS(errno, EINTR);
	CHECK(!pthread_equal(handler, pthread_self()));
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- all come, as they were sent ---- */

#define QUEUED 1000

static pid_t sender_is;
static sem_t told;
static int sum, wrong;

static void counts(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	if (sig != SIGRTMIN || si->si_code != SI_QUEUE ||
	    si->si_pid != sender_is)
		__atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&sum, si->si_value.sival_int, __ATOMIC_SEQ_CST);
	sem_post(&told);
}

static void test_queued(void)
{
	struct sigaction sa = { .sa_sigaction = counts,
				.sa_flags = SA_SIGINFO };
	const pid_t parent = getpid();
	int pipe_of[2], i, status;
	char c;

	IS(sigaction(SIGRTMIN, &sa, NULL), 0);
	IS(pipe(pipe_of), 0);
	sender_is = fork();
	if (!sender_is) {
		close(pipe_of[1]);
		IS(read(pipe_of[0], &c, 1), 0); /* sender_is is known */
		for (i = 1; i <= QUEUED; i++)
			while (sigqueue(parent, SIGRTMIN,
					(union sigval){ .sival_int = i }))
				IS(errno, EAGAIN);
		_exit(0);
	}
	close(pipe_of[0]);
	close(pipe_of[1]);
	for (i = 0; i < QUEUED; i++)
		while (sem_wait(&told))
			IS(errno, EINTR);
	IS(wrong, 0);
	IS(sum, QUEUED * (QUEUED + 1) / 2);
	while (waitpid(sender_is, &status, 0) < 0)
		IS(errno, EINTR);
	IS(status, 0);
}

/* ---- posts in handlers of a thread of glibc's ---- */

static sem_t units;
static long wakes; /* atomic */

static void posts(int sig)
{
	(void)sig;
	sem_post(&units);
}

static void *takes(void *arg)
{
	while (!is_over()) {
		while (sem_wait(&units))
			IS(errno, EINTR);
		__atomic_fetch_add(&wakes, 1, __ATOMIC_RELAXED);
	}
	return arg;
}

static void *posts_on(void *arg)
{
	while (!is_over())
		sem_post(&units);
	return arg;
}

/* It brings its stack along, so it is no uthread. */
static void test_posts(void)
{
	const size_t bytes = 1 << 20;
	pthread_attr_t attr;
	pthread_t t[3], poster;
	void *stack;
	long seen;
	int i;

	__atomic_store_n(&over, 0, __ATOMIC_RELEASE);
	handles(SIGUSR2, posts, SA_RESTART);
	sem_init(&units, 0, 0);
	for (i = 0; i < 3; i++)
		t[i] = start(takes, NULL);
	IS(posix_memalign(&stack, 4096, bytes), 0);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, bytes);
	IS(pthread_create(&poster, &attr, posts_on, NULL), 0);
	for (i = 0; i < 2000; i++) {
		IS(pthread_kill(poster, SIGUSR2), 0);
		usleep(20);
	}
	/* It still posts, and who waits is still woken. */
	seen = __atomic_load_n(&wakes, __ATOMIC_RELAXED);
	while (__atomic_load_n(&wakes, __ATOMIC_RELAXED) < seen + 100)
		usleep(1000);
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	pthread_join(poster, NULL);
	for (i = 0; i < 3; i++)
		sem_post(&units);
	for (i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	pthread_attr_destroy(&attr);
	free(stack);
}

/* ---- a child of another's ---- */

static sem_t forked;
static volatile sig_atomic_t came;

static void comes(int sig)
{
	(void)sig;
	came++;
}

/* There is nobody else to take it, and the one who waits has stayed behind. */
static void *forks(void *arg)
{
	int i, status;
	pid_t pid;

	for (i = 0; i < 20; i++) {
		usleep(2000);
		pid = i % 2 ? _Fork() : fork();
		if (!pid) {
			alarm(60);
			if (kill(getpid(), SIGUSR2) || came != 1)
				_exit(1);
			_exit(0);
		}
		while (waitpid(pid, &status, 0) < 0)
			IS(errno, EINTR);
		IS(status, 0);
	}
	sem_post(&forked);
	return arg;
}

static void test_child(void)
{
	pthread_t t;

	handles(SIGUSR2, comes, 0);
	sem_init(&forked, 0, 0);
	t = start(forks, NULL);
	while (sem_wait(&forked))
		IS(errno, EINTR);
	pthread_join(t, NULL);
	IS(came, 0);
}

/* ---- a handler from before the first thread that makes way ---- */

static void *returns(void *arg)
{
	return arg;
}

static void once_only(int sig)
{
	static int times;

	if (times++)
		_exit(1);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void test_last_words(int sig)
{
	pid_t child = fork();
	int status;

	if (!child) {
		handles(sig, once_only, (int)SA_NODEFER);
		pthread_join(start(returns, NULL), NULL);
		raise(sig);
		_exit(2);
	}
	IS(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	IS(WTERMSIG(status), sig);
}

int main(void)
{
	test_last_words(SIGSEGV);
	test_last_words(SIGABRT);
	test_last_words(SIGTERM);
	sem_init(&never, 0, 0);
	sem_init(&told, 0, 0);
	sem_init(&handled, 0, 0);
	test_interrupts(kills, 1);
	test_interrupts(kills_and_computes, 1);
	test_interrupts(kills_and_computes, 4);
	test_blocked();
	test_queued();
	test_posts();
	test_child();
	return 0;
}
