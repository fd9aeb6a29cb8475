/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_points_waits.c - cancellation points of calls that wait for a time, a signal, a
 * child, or another thread (points.h).
 */
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

#include "points.h"

static struct timespec far;

/* ---- time, and signals ---- */

static void handler(int sig)
{
	(void)sig;
}

static void signals(void)
{
	/* The others have been told how to handle it. */
}

static void send_one(void)
{
	pthread_kill(sleeper, SIGUSR1);
}

static void in_sleep(void)
{
	sleep(10000);
}

static void in_usleep(void)
{
	usleep(999999999);
}

static void in_nanosleep(void)
{
	const struct timespec t = { 10000, 0 };

	IS(nanosleep(&t, NULL), -1);
}

static void in_clock_nanosleep(void)
{
	IS(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &far, NULL), EINTR);
}

static void in_pause(void)
{
	IS(pause(), -1);
}

static void in_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	IS(sigsuspend(&none), -1);
}

static sigset_t one;

static void block_one(void)
{
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &one, NULL);
}

static void in_sigwait(void)
{
	int sig;

	block_one();
	IS(sigwait(&one, &sig), 0);
}

static void in_sigwaitinfo(void)
{
	block_one();
	IS(sigwaitinfo(&one, NULL), SIGUSR1);
}

static void in_sigtimedwait(void)
{
	const struct timespec t = { 10000, 0 };

	block_one();
	IS(sigtimedwait(&one, NULL, &t), SIGUSR1);
}

/* ---- a child ---- */

static pid_t child;

static void a_child(void)
{
	a_pipe();
	child = fork();
	if (!child) {
		read(ends[0], &byte, 1);
		_exit(0);
	}
	CHECK(child > 0);
}

static void reap(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	both_ends();
}

static void in_wait(void)
{
	IS(wait(NULL), child);
}

static void in_waitpid(void)
{
	IS(waitpid(child, NULL, 0), child);
}

static void in_wait3(void)
{
	IS(wait3(NULL, 0, NULL), child);
}

static void in_wait4(void)
{
	IS(wait4(child, NULL, 0, NULL), child);
}

static void in_waitid(void)
{
	siginfo_t si;

	IS(waitid(P_PID, (id_t)child, &si, WEXITED), 0);
}

/* ---- what is waited for with threads ---- */

static sem_t sem;
static pthread_mutex_t m;
static pthread_cond_t c;
static int told;

static void a_sem(void)
{
	IS(sem_init(&sem, 0, 0), 0);
}

static void a_shared_sem(void)
{
	IS(sem_init(&sem, 1, 0), 0);
}

static void post(void)
{
	sem_post(&sem);
}

static void no_sem(void)
{
	IS(sem_destroy(&sem), 0);
}

static void in_sem_wait(void)
{
	IS(sem_wait(&sem), 0);
}

static void in_sem_timedwait(void)
{
	IS(sem_timedwait(&sem, &far), 0);
}

static void in_sem_clockwait(void)
{
	IS(sem_clockwait(&sem, CLOCK_REALTIME, &far), 0);
}

static void a_cond_of(int shared)
{
	pthread_mutexattr_t ma;
	pthread_condattr_t ca;

	pthread_mutexattr_init(&ma);
	pthread_condattr_init(&ca);
	pthread_mutexattr_settype(&ma, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutexattr_setpshared(&ma, shared);
	pthread_condattr_setpshared(&ca, shared);
	IS(pthread_mutex_init(&m, &ma), 0);
	IS(pthread_cond_init(&c, &ca), 0);
	told = 0;
}

static void a_cond(void)
{
	a_cond_of(PTHREAD_PROCESS_PRIVATE);
}

static void a_shared_cond(void)
{
	a_cond_of(PTHREAD_PROCESS_SHARED);
}

static void signal_it(void)
{
	IS(pthread_mutex_lock(&m), 0);
	told = 1;
	IS(pthread_cond_signal(&c), 0);
	IS(pthread_mutex_unlock(&m), 0);
}

static void no_cond(void)
{
	IS(pthread_cond_destroy(&c), 0);
	IS(pthread_mutex_trylock(&m), 0);
	IS(pthread_mutex_unlock(&m), 0);
	IS(pthread_mutex_destroy(&m), 0);
}

/* It is held again. */
static void leave(void *unused)
{
	(void)unused;
	IS(pthread_mutex_unlock(&m), 0);
}

static void in_cond_wait(void)
{
	IS(pthread_mutex_lock(&m), 0);
	pthread_cleanup_push(leave, NULL);
	while (!told)
		IS(pthread_cond_wait(&c, &m), 0);
	pthread_cleanup_pop(1);
}

static void in_cond_timedwait(void)
{
	IS(pthread_mutex_lock(&m), 0);
	pthread_cleanup_push(leave, NULL);
	while (!told)
		IS(pthread_cond_timedwait(&c, &m, &far), 0);
	pthread_cleanup_pop(1);
}

static pthread_t joined;
static int is_joined;

static void *until_posted(void *arg)
{
	int state;

	while (sem_wait(&sem))
		;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return arg;
}

static void a_thread(void)
{
	a_sem();
	is_joined = 0;
	joined = start(until_posted, NULL);
}

static void in_join(void)
{
	IS(pthread_join(joined, NULL), 0);
	is_joined = 1;
}

static void in_timedjoin(void)
{
	IS(pthread_timedjoin_np(joined, NULL, &far), 0);
	is_joined = 1;
}

static void no_thread(void)
{
	post();
	if (!is_joined)
		IS(pthread_join(joined, NULL), 0);
	while (!sem_trywait(&sem))
		;
	no_sem();
}

/* ---- */

static const struct row rows[] = {
	R(sleep, signals, send_one, signals, RAW | AGAIN),
	R(usleep, signals, send_one, signals, RAW | AGAIN),
	R(nanosleep, signals, send_one, signals, RAW | AGAIN),
	R(clock_nanosleep, signals, send_one, signals, RAW | AGAIN),
	R(pause, signals, send_one, signals, RAW | AGAIN),
	R(sigsuspend, signals, send_one, signals, RAW | AGAIN),
	R(sigwait, signals, send_one, signals, RAW | AGAIN),
	R(sigwaitinfo, signals, send_one, signals, RAW | AGAIN),
	R(sigtimedwait, signals, send_one, signals, RAW | AGAIN),
	R(wait, a_child, put_one, reap, RAW),
	R(waitpid, a_child, put_one, reap, RAW),
	R(wait3, a_child, put_one, reap, RAW),
	R(wait4, a_child, put_one, reap, RAW),
	R(waitid, a_child, put_one, reap, RAW),
	R(sem_wait, a_sem, post, no_sem, 0),
	R(sem_timedwait, a_sem, post, no_sem, 0),
	R(sem_clockwait, a_sem, post, no_sem, 0),
	R(sem_wait, a_shared_sem, post, no_sem, 0),
	R(cond_wait, a_cond, signal_it, no_cond, 0),
	R(cond_timedwait, a_cond, signal_it, no_cond, 0),
	R(cond_wait, a_shared_cond, signal_it, no_cond, 0),
	R(cond_timedwait, a_shared_cond, signal_it, no_cond, 0),
	R(join, a_thread, post, no_thread, 0),
	R(timedjoin, a_thread, post, no_thread, 0),
};

int main(int argc, char **argv)
{
	const struct sigaction sa = { .sa_handler = handler };

	IS(sigaction(SIGUSR1, &sa, NULL), 0);
	far = in_ms(CLOCK_REALTIME, 10000000);
	ALL(rows, argc, argv);
	return 0;
}
