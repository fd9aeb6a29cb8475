/* SPDX-License-Identifier: Apache-2.0 */
/* test_edges.c - what others' conformance suites found. */
#include <aio.h>
#include <semaphore.h>
#include <signal.h>

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

static void on_alarm(int sig)
{
	(void)sig;
	alarm(1); /* before it sleeps, maybe */
}

static void test_alone(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct timespec later = in_ms(CLOCK_REALTIME, 1000 * 1000 * 1000);

	IS(sem_init(&never, 0, 0), 0);
	sigaction(SIGALRM, &sa, NULL);
	alarm(1);
	IS(sem_wait(&never), -1);
	IS(errno, EINTR);
	IS(sem_timedwait(&never, &later), -1);
	IS(errno, EINTR);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &sa, NULL);
	IS(sem_timedwait(&never, &later), -1);
	IS(errno, EINTR);
	alarm(0);
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

int main(void)
{
	test_alone();
	test_interrupted(listens);
	test_interrupted(reads);
	test_own_stack();
	return 0;
}
