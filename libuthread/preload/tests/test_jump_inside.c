/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers that jump out of calls which POSIX lets them leave, while the call is at
 * something else than its wait: it may need memory, or a descriptor, that plain pthreads
 * do not. In malloc() no handler may come then, or its lock would be taken for ever: all
 * of this program's send a signal that would jump. And nothing is left open.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

#define TIMES 200
#define MANY 40 /* descriptors, more than have room on a stack anywhere */

static _Thread_local sigjmp_buf env;
static _Thread_local volatile sig_atomic_t armed; /* it may jump */
static _Thread_local volatile sig_atomic_t inside; /* malloc() or the like */
static int met; /* atomic: handlers that came there */

static void jumps(int sig)
{
	(void)sig;
	if (inside)
		__atomic_fetch_add(&met, 1, __ATOMIC_RELAXED);
	if (inside || !armed)
		return;
	armed = 0;
	siglongjmp(env, 1);
}

/* ---- malloc() ---- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *p);

/* To this kernel thread, past all that may stand before kill(). */
static void comes_inside(void)
{
	const int saved = errno;

	if (!armed || inside)
		return;
	inside = 1;
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
	inside = 0;
	errno = saved;
}

void *malloc(size_t bytes)
{
	comes_inside();
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	comes_inside();
	return __libc_calloc(n, bytes);
}

int posix_memalign(void **p, size_t alignment, size_t bytes)
{
	comes_inside();
	*p = __libc_memalign(alignment, bytes);
	return *p ? 0 : ENOMEM;
}

void free(void *p)
{
	if (p)
		comes_inside();
	__libc_free(p);
}

/* ---- the waits ---- */

static int tube[2], fds[MANY], high;
static pid_t child;

static void in_read(void)
{
	char c;

	/* Of a number that nobody has waited for. */
	IS(dup2(tube[0], high), high);
	read(high, &c, 1);
}

static void in_poll(void)
{
	struct pollfd p[MANY];
	int i;

	for (i = 0; i < MANY; i++)
		p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	poll(p, MANY, -1);
}

static void in_select(void)
{
	fd_set in;
	int i;

	FD_ZERO(&in);
	for (i = 0; i < MANY; i++)
		FD_SET(fds[i], &in);
	select(FD_SETSIZE, &in, NULL, NULL, NULL);
}

static void in_wait(void)
{
	wait(NULL);
}

static void in_waitpid(void)
{
	waitpid(child, NULL, 0);
}

static void in_waitpid_stopped(void)
{
	waitpid(child, NULL, WUNTRACED);
}

static void in_sigwaitinfo(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigwaitinfo(&set, NULL);
}

static void (*const waits[])(void) = {
	in_read,	in_poll,    in_select,
	in_wait,	in_waitpid, in_waitpid_stopped,
	in_sigwaitinfo,
};

#define WAITS ((int)(sizeof(waits) / sizeof(*waits)))

/* ---- again and again ---- */

static pthread_t target;
static int stop; /* atomic */

static void *sends(void *arg)
{
	const struct timespec t = { .tv_nsec = 20000 };

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		pthread_kill(target, SIGUSR1);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	return arg;
}

static void leaves(void (*fn)(void))
{
	while (!sigsetjmp(env, 1)) {
		armed = 1;
		fn();
		armed = 0; /* the handler had come before */
	}
}

static int lowest_free(void)
{
	const int fd = dup(0);

	CHECK(fd >= 0);
	IS(close(fd), 0);
	return fd;
}

static void *leaves_all(void *arg)
{
	int i, n, lowest = 0;
	pthread_t t;

	target = pthread_self();
	t = start(sends, NULL);
	for (i = 0; i < WAITS; i++) {
		leaves(waits[i]); /* the first may open what stays */
		lowest = lowest_free();
		for (n = 0; n < TIMES; n++) {
			if (waits[i] == in_read)
				high = n % 2 ? 1000 : 300 + n;
			leaves(waits[i]);
		}
		/* Others may have one open for a moment, and who has left one open
		 * does not come past here. */
		while (lowest_free() > lowest)
			usleep(1000);
		IS(__atomic_load_n(&met, __ATOMIC_RELAXED), 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	IS(pthread_join(t, NULL), 0);
	return arg;
}

static pid_t sleeper(void)
{
	const pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGUSR1, SIG_IGN);
		for (;;)
			pause();
	}
	return pid;
}

int main(void)
{
	struct sigaction a = { .sa_handler = jumps };
	sigset_t set;
	int i;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	IS(pipe(tube), 0);
	for (i = 0; i < MANY; i++)
		CHECK((fds[i] = dup(tube[0])) >= 0);
	child = sleeper();
	high = 299;
	IS(sigaction(SIGUSR1, &a, NULL), 0);
	IS(pthread_join(start(leaves_all, NULL), NULL), 0);
	/* No lock of malloc() is taken: fork() takes them all. */
	IS(kill(child, SIGKILL), 0);
	IS(waitpid(child, NULL, 0), child);
	child = sleeper();
	IS(kill(child, SIGKILL), 0);
	IS(wait(NULL), child);
	return 0;
}
