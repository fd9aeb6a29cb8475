/* SPDX-License-Identifier: Apache-2.0 */
/* test_edges.c - what others' conformance suites found. */
#include <aio.h>
#include <linux/futex.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/msg.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "check.h"

static volatile int done;

static void on_signal(int sig)
{
	(void)sig;
}

/* ---- a handler ends a call that libc makes inside of another function ---- */

/* glibc forgets nobody whom that calls away: nothing must ever come. */
static void *listens(void *arg)
{
	static char byte;
	static struct aiocb requests[2], *next = requests;
	struct aiocb *request = next++;

	*request = (struct aiocb){
		.aio_fildes = *(int *)arg,
		.aio_lio_opcode = LIO_READ,
		.aio_buf = &byte,
		.aio_nbytes = 1,
	};
	IS(lio_listio(LIO_WAIT, &request, 1, NULL), -1);
	IS(errno, EINTR);
	done = 1;
	return NULL;
}

static void *reads(void *arg)
{
	FILE *f = fdopen(dup(*(int *)arg), "r");

	IS(fgetc(f), EOF);
	IS(errno, EINTR);
	CHECK(ferror(f));
	done = 1;
	fclose(f);
	return NULL;
}

static void *interrupts(void *arg)
{
	while (!done) {
		IS(pthread_kill(*(pthread_t *)arg, SIGUSR1), 0);
		usleep(1000);
	}
	return NULL;
}

static void test_interrupted(void *(*fn)(void *))
{
	struct sigaction sa = { .sa_handler = on_signal };
	pthread_t t, main_thread = pthread_self();
	int fds[2];

	sigaction(SIGUSR1, &sa, NULL);
	IS(pipe(fds), 0);
	done = 0;
	t = start(fn, fds);
	interrupts(&t);
	IS(pthread_join(t, NULL), 0);
	/* Main, too. */
	done = 0;
	t = start(interrupts, &main_thread);
	fn(fds);
	IS(pthread_join(t, NULL), 0);
}

/* ---- who has no threads, and who brings a stack, is interrupted, too ---- */

static sem_t never;

static void test_alone(void)
{
	/* One may come before it sleeps. */
	const struct itimerval often = { { 0, 20000 }, { 0, 20000 } },
			       off = { 0 };
	struct sigaction sa = { .sa_handler = on_signal };
	struct timespec later = in_ms(CLOCK_REALTIME, 1000 * 1000 * 1000);

	IS(sem_init(&never, 0, 0), 0);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	IS(sem_wait(&never), -1);
	IS(errno, EINTR);
	IS(sem_timedwait(&never, &later), -1);
	IS(errno, EINTR);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &sa, NULL);
	IS(sem_timedwait(&never, &later), -1);
	IS(errno, EINTR);
	setitimer(ITIMER_REAL, &off, NULL);
}

static void *semaphore(void *arg)
{
	IS(sem_wait(&never), -1);
	IS(errno, EINTR);
	done = 1;
	return arg;
}

static void test_own_stack(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	static char stack[1 << 20] __attribute__((aligned(4096)));
	pthread_attr_t attr;
	pthread_t t;

	sigaction(SIGUSR1, &sa, NULL);
	done = 0;
	pthread_attr_init(&attr);
	IS(pthread_attr_setstack(&attr, stack, sizeof(stack)), 0);
	IS(pthread_create(&t, &attr, semaphore, NULL), 0);
	interrupts(&t);
	IS(pthread_join(t, NULL), 0);
	pthread_attr_destroy(&attr);
}

/* ---- deadlines ---- */

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *deadlines(void *arg)
{
	struct timespec t = in_ms(CLOCK_REALTIME, -1000);
	uint32_t word = 0;

	t.tv_nsec %= 1000000000;
	IS(pthread_mutex_timedlock(&held, &t), ETIMEDOUT);
	for (t.tv_nsec = 999999999; t.tv_nsec < 2010000000;
	     t.tv_nsec += 1000000) {
		const int err = t.tv_nsec < 1000000000 ? ETIMEDOUT : EINVAL;

		IS(pthread_mutex_timedlock(&held, &t), err);
		IS(pthread_mutex_clocklock(&held, CLOCK_REALTIME, &t), err);
		if (err == ETIMEDOUT) /* else glibc waits for ever */
			IS(pthread_timedjoin_np(*(pthread_t *)arg, NULL, &t),
			   err);
		IS(syscall(SYS_futex, &word,
			   FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0,
			   &t, NULL, FUTEX_BITSET_MATCH_ANY),
		   -1);
		IS(errno, err);
	}
	t.tv_sec = -1;
	IS(pthread_mutex_timedlock(&held, &t), ETIMEDOUT);
	return NULL;
}

static void *takes(void *arg)
{
	IS(pthread_mutex_lock(&held), 0);
	IS(pthread_mutex_unlock(&held), 0);
	return arg;
}

static void test_deadlines(void)
{
	pthread_t stays;

	IS(pthread_mutex_lock(&held), 0);
	stays = start(takes, NULL);
	IS(pthread_join(start(deadlines, &stays), NULL), 0);
	IS(pthread_mutex_unlock(&held), 0);
	IS(pthread_join(stays, NULL), 0);
}

/* ---- what a thread was made with ---- */

struct made {
	size_t stack, guard;
	int state, has_stack;
};

static pthread_barrier_t both;

static void *is_made(void *arg)
{
	const struct made *m = arg;
	pthread_attr_t attr;
	cpu_set_t set, now;
	size_t bytes;
	void *low;
	int state;

	pthread_barrier_wait(&both); /* its maker is done */
	IS(pthread_getattr_np(pthread_self(), &attr), 0);
	IS(pthread_attr_getstack(&attr, &low, &bytes), 0);
	CHECK((char *)low < (char *)&bytes &&
	      (char *)&bytes < (char *)low + bytes);
	if (m->has_stack)
		IS(bytes, m->stack);
	IS(pthread_attr_getguardsize(&attr, &bytes), 0);
	IS(bytes, m->guard);
	IS(pthread_attr_getdetachstate(&attr, &state), 0);
	IS(state, m->state);
	IS(pthread_attr_getaffinity_np(&attr, sizeof(set), &set), 0);
	IS(pthread_getaffinity_np(pthread_self(), sizeof(now), &now), 0);
	CHECK(CPU_EQUAL(&set, &now));
	IS(pthread_attr_destroy(&attr), 0);
	pthread_barrier_wait(&both);
	return NULL;
}

static void make(const pthread_attr_t *attr, struct made *m)
{
	pthread_t t;

	IS(pthread_create(&t, attr, is_made, m), 0);
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both);
	if (m->state == PTHREAD_CREATE_JOINABLE)
		IS(pthread_join(t, NULL), 0);
}

static void *is_blocked(void *arg)
{
	sigset_t set;

	IS(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	IS(sigismember(&set, SIGUSR2), 1);
	return arg;
}

static void test_made(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct made m = { .state = PTHREAD_CREATE_JOINABLE };
	pthread_attr_t attr, usual;
	sigset_t set;

	pthread_barrier_init(&both, NULL, 2);
	pthread_attr_init(&attr);
	pthread_attr_getguardsize(&attr, &m.guard);
	make(NULL, &m);
	make(&attr, &m);
	m.has_stack = 1;
	m.stack = (1 << 20) + 17 * page; /* of none that is in use */
	pthread_attr_setstacksize(&attr, m.stack);
	make(&attr, &m);
	pthread_attr_setguardsize(&attr, m.guard = 0);
	make(&attr, &m);
	pthread_attr_setguardsize(&attr, (m.guard = 3 * page) - 1);
	make(&attr, &m);
	pthread_attr_setdetachstate(&attr, m.state = PTHREAD_CREATE_DETACHED);
	make(&attr, &m);
	pthread_attr_setdetachstate(&attr, m.state = PTHREAD_CREATE_JOINABLE);

	/* What is usual may change, the signals too. */
	IS(pthread_getattr_default_np(&usual), 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	IS(pthread_attr_setsigmask_np(&attr, &set), 0);
	IS(pthread_setattr_default_np(&attr), 0);
	make(NULL, &m);
	IS(pthread_join(start(is_blocked, NULL), NULL), 0);
	IS(pthread_setattr_default_np(&usual), 0);
	pthread_attr_destroy(&usual);
	pthread_attr_destroy(&attr);
}

/* ---- the kernel's functions, of the caller ---- */

/* As the kernel's. */
struct by_number {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t of_deadlines[3];
};

static void by_number(pid_t pid)
{
	const struct sched_param none = { .sched_priority = 0 };
	struct sched_param param = { .sched_priority = 7 };
	struct by_number a;
	cpu_set_t set, one;
	int i;

	IS(syscall(SYS_sched_getattr, pid, &a, sizeof(a), 0), 0);
	IS(a.size, sizeof(a));
	IS(a.policy, SCHED_OTHER);
	IS(syscall(SYS_sched_setattr, pid, &a, 0), 0);
	IS(syscall(SYS_sched_setattr, pid, &a, 1), -1);
	IS(errno, EINVAL);
	IS(syscall(SYS_sched_getattr, pid, &a, sizeof(a) - 1, 0), -1);
	IS(errno, EINVAL);
	IS(sched_setscheduler(pid, SCHED_BATCH, &none), 0);
	IS(sched_getscheduler(pid), SCHED_BATCH);
	IS(syscall(SYS_sched_getattr, pid, &a, sizeof(a), 0), 0);
	IS(a.policy, SCHED_BATCH);
	a.policy = SCHED_OTHER;
	IS(syscall(SYS_sched_setattr, pid, &a, 0), 0);
	IS(sched_getscheduler(pid), SCHED_OTHER);
	IS(sched_getparam(pid, &param), 0);
	IS(param.sched_priority, 0);
	IS(sched_setparam(pid, &param), 0);
	param.sched_priority = 1;
	IS(sched_setparam(pid, &param), -1);
	IS(errno, EINVAL);
	IS(sched_getaffinity(pid, sizeof(set), &set), 0);
	for (i = 0; !CPU_ISSET(i, &set); i++)
		;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	IS(sched_setaffinity(pid, sizeof(one), &one), 0);
	IS(sched_getaffinity(pid, sizeof(one), &one), 0);
	IS(CPU_COUNT(&one), 1);
	IS(sched_setaffinity(pid, sizeof(set), &set), 0);
	CPU_ZERO(&one);
	IS(sched_setaffinity(pid, sizeof(one), &one), -1);
	IS(errno, EINVAL);
}

static void *by_numbers(void *arg)
{
	by_number(0);
	by_number(gettid());
	by_number((pid_t)syscall(SYS_gettid));
	IS(sched_getscheduler(-1), -1);
	IS(errno, EINVAL);
	return arg;
}

/* ---- signals to the process, for who waits for an object ---- */

#define THREADS 4
#define ROUNDS 100

static __thread volatile int mine = -1;
static sem_t came, last;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t end;
static int ended;

/* Each is let in by one. */
static void on_own(int sig)
{
	if (mine != sig - SIGRTMIN) {
		static const char text[] = "a handler runs where it must not\n";

		_exit(write(2, text, sizeof(text) - 1) ? 1 : 2);
	}
	sem_post(&came);
}

static void *lets_in_one(void *arg)
{
	sigset_t set;

	mine = (int)(long)arg;
	sigfillset(&set);
	sigdelset(&set, SIGRTMIN + mine);
	IS(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	sem_post(&came);
	switch (mine) {
	case 0:
		IS(pthread_mutex_lock(&held), 0);
		IS(pthread_mutex_unlock(&held), 0);
		break;
	case 1:
		IS(sem_wait(&last), 0);
		break;
	case 2:
		IS(pthread_mutex_lock(&lock), 0);
		while (!ended)
			IS(pthread_cond_wait(&cond, &lock), 0);
		IS(pthread_mutex_unlock(&lock), 0);
		break;
	default:
		pthread_barrier_wait(&end);
		break;
	}
	return NULL;
}

static void test_to_process(int block_first)
{
	struct sigaction sa = { .sa_handler = on_own, .sa_flags = SA_RESTART };
	pthread_t t[THREADS];
	sigset_t set, old;
	int i;

	sem_init(&came, 0, 0);
	sem_init(&last, 0, 0);
	pthread_barrier_init(&end, NULL, 2);
	ended = 0;
	IS(pthread_mutex_lock(&held), 0);
	sigemptyset(&set);
	for (i = 0; i < THREADS; i++) {
		sigaction(SIGRTMIN + i, &sa, NULL);
		sigaddset(&set, SIGRTMIN + i);
	}
	if (block_first)
		IS(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	for (i = 0; i < THREADS; i++)
		t[i] = start(lets_in_one, (void *)(long)i);
	if (!block_first)
		IS(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	for (i = 0; i < THREADS; i++)
		while (sem_wait(&came))
			;
	for (i = 0; i < THREADS * ROUNDS; i++) {
		IS(kill(getpid(), SIGRTMIN + i % THREADS), 0);
		while (sem_wait(&came))
			;
	}
	IS(pthread_mutex_unlock(&held), 0);
	sem_post(&last);
	IS(pthread_mutex_lock(&lock), 0);
	ended = 1;
	IS(pthread_cond_broadcast(&cond), 0);
	IS(pthread_mutex_unlock(&lock), 0);
	pthread_barrier_wait(&end);
	for (i = 0; i < THREADS; i++)
		IS(pthread_join(t[i], NULL), 0);
	IS(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

/* ---- who gets EINTR has run a handler ---- */

static __thread volatile int own;
static int queue;

static void on_one(int sig)
{
	(void)sig;
	own++;
}

/* It sleeps in the kernel, which may choose this thread for what main is to handle. */
static void *receives(void *arg)
{
	struct {
		long type;
		char text;
	} message;
	ssize_t got;

	do {
		own = 0;
		got = msgrcv(queue, &message, 1, 0, 0);
		CHECK(got == 1 || (got == -1 && errno == EINTR && own));
	} while (got < 0);
	return arg;
}

static void *kills(void *arg)
{
	struct {
		long type;
		char text;
	} message = { .type = 1 };
	sigset_t set;
	int i;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	for (i = 0; i < 500; i++) {
		IS(kill(getpid(), SIGUSR1), 0);
		usleep(100);
	}
	IS(msgsnd(queue, &message, 1, 0), 0);
	sem_post(&last);
	return arg;
}

static void test_own_handler(void)
{
	struct sigaction sa = { .sa_handler = on_one };
	pthread_t t, other;

	queue = msgget(IPC_PRIVATE, 0600);
	if (queue < 0)
		return; /* a kernel without */
	sem_init(&last, 0, 0);
	sigaction(SIGUSR1, &sa, NULL);
	t = start(receives, NULL);
	other = start(kills, NULL);
	for (own = 0; sem_wait(&last); own = 0)
		CHECK(errno == EINTR && own);
	IS(pthread_join(t, NULL), 0);
	IS(pthread_join(other, NULL), 0);
	IS(msgctl(queue, IPC_RMID, NULL), 0);
}

/* ---- asynchronously cancelled while it waits for a mutex ---- */

static void *cancelled(void *arg)
{
	int old;

	IS(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	IS(old, PTHREAD_CANCEL_DEFERRED);
	sem_post(&came);
	pthread_mutex_lock(&held);
	CHECK(0);
	return arg;
}

static void test_cancelled(void)
{
	void *value;
	pthread_t t;
	int i;

	sem_init(&came, 0, 0);
	IS(pthread_mutex_lock(&held), 0);
	for (i = 0; i < 50; i++) {
		t = start(cancelled, NULL);
		while (sem_wait(&came))
			;
		if (i % 2)
			usleep(1000);
		IS(pthread_cancel(t), 0);
		IS(pthread_join(t, &value), 0);
		CHECK(value == PTHREAD_CANCELED);
	}
	IS(pthread_mutex_unlock(&held), 0);
}

int main(void)
{
	test_alone();
	test_to_process(1); /* the first threads there are */
	test_to_process(0);
	test_own_handler();
	test_interrupted(listens);
	test_interrupted(reads);
	test_own_stack();
	test_cancelled();
	test_deadlines();
	test_made();
	by_numbers(NULL);
	IS(pthread_join(start(by_numbers, NULL), NULL), 0);
	return 0;
}
