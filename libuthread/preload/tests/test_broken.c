/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_broken.c - who blocks SIGPIPE and writes where nobody reads: the signal is
 * its own, so that no other thread, which lets it in, ever has it. With an argument in
 * as many groups as there may be: the kernel names them all before what waits.
 */
#include <grp.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "check.h"

#define ROUNDS 20
#define OTHERS 4
#define GROUPS 65536 /* NGROUPS_MAX */
#define SKIPPED 77

static sem_t go, came;
static int handled; /* atomic */

static void on_pipe(int sig)
{
	(void)sig;
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

static void *other(void *arg)
{
	int i;

	for (i = 0; i < 4 * ROUNDS; i++) {
		sem_wait(&go);
		sem_post(&came);
	}
	return arg;
}

static void others_run(void)
{
	int i;

	for (i = 0; i < OTHERS; i++)
		sem_post(&go);
	for (i = 0; i < OTHERS; i++)
		sem_wait(&came);
}

static int broken_pipe(void)
{
	int fds[2];

	IS(pipe(fds), 0);
	close(fds[0]);
	return fds[1];
}

static int broken_socket(void)
{
	int fds[2];

	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	close(fds[0]);
	return fds[1];
}

static void fails(ssize_t got)
{
	IS(got, -1);
	IS(errno, EPIPE);
	others_run();
}

static void *writes(void *arg)
{
	const int to = broken_pipe(), socket = broken_socket();
	FILE *f = fdopen(broken_pipe(), "w");
	sigset_t all;
	int i;

	CHECK(f);
	sigfillset(&all);
	IS(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	for (i = 0; i < ROUNDS; i++) {
		fails(write(to, "x", 1));
		fails(send(socket, "x", 1, 0));
		fails(syscall(SYS_write, to, "x", 1));
		fputc('x', f);
		fails(fflush(f));
	}
	return arg;
}

/* Who lets it in has it at once, each time. */
static void *has_it(void *arg)
{
	const int to = broken_pipe();
	int i;

	for (i = 1; i <= ROUNDS; i++) {
		IS(write(to, "x", 1), -1);
		IS(errno, EPIPE);
		IS(__atomic_load_n(&handled, __ATOMIC_RELAXED), i);
	}
	close(to);
	return arg;
}

static int join_groups(void)
{
	static gid_t groups[GROUPS];
	int i;

	for (i = 0; i < GROUPS; i++)
		groups[i] = 1000000000 + (gid_t)i;
	return setgroups(GROUPS, groups);
}

int main(int argc, char **argv)
{
	const struct sigaction sa = { .sa_handler = on_pipe };
	pthread_t t[OTHERS], writer;
	int i;

	(void)argv;
	if (argc > 1 && join_groups())
		return SKIPPED; /* only root may */
	IS(sigaction(SIGPIPE, &sa, NULL), 0);
	sem_init(&go, 0, 0);
	sem_init(&came, 0, 0);
	for (i = 0; i < OTHERS; i++)
		t[i] = start(other, NULL);
	writer = start(writes, NULL);
	IS(pthread_join(writer, NULL), 0);
	for (i = 0; i < OTHERS; i++)
		IS(pthread_join(t[i], NULL), 0);
	IS(handled, 0);
	IS(pthread_join(start(has_it, NULL), NULL), 0);
	IS(handled, ROUNDS);
	return 0;
}
