/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_urgent.c - a program that handles SIGURG, and SIGWINCH after it: from before its
 * first thread on or, with an argument, from after it. Threads that compute have turns
 * all the same, and each signal comes to its handler, and to whom it was sent; none is
 * lost, whichever kernel thread it comes to.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "check.h"

#define THREADS 6
#define ROUNDS 500

static int begun, ended, urgent, resized;
static __thread int mine;

static void on_signal(int sig)
{
	__atomic_fetch_add(sig == SIGURG ? &urgent : &resized, 1,
			   __ATOMIC_SEQ_CST);
	mine++;
}

static int seen(const int *n)
{
	return __atomic_load_n(n, __ATOMIC_SEQ_CST);
}

/* They are more than there are CPUs for, and nobody yields. */
static void *computes(void *arg)
{
	const int *volatile here = &mine;

	__atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
	while (seen(&begun) < THREADS)
		;
	while (!*(volatile const int *)here)
		;
	__atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
	while (seen(&ended) < THREADS)
		;
	IS(*here, 1);
	return arg;
}

static void handle(int sig)
{
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_RESTART };

	IS(sigaction(sig, &sa, NULL), 0);
}

static void *nothing(void *arg)
{
	return arg;
}

/* What SIGURG is for. */
static void out_of_band(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int l = socket(AF_INET, SOCK_STREAM, 0), s, peer;
	socklen_t room = sizeof(at);
	const int before = seen(&urgent);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	IS(bind(l, (struct sockaddr *)&at, sizeof(at)), 0);
	IS(listen(l, 1), 0);
	IS(getsockname(l, (struct sockaddr *)&at, &room), 0);
	s = socket(AF_INET, SOCK_STREAM, 0);
	IS(connect(s, (struct sockaddr *)&at, sizeof(at)), 0);
	peer = accept(l, NULL, NULL);
	CHECK(peer >= 0);
	IS(fcntl(s, F_SETOWN, getpid()), 0);
	IS(send(peer, "!", 1, MSG_OOB), 1);
	while (seen(&urgent) == before)
		usleep(1000);
	close(s);
	close(peer);
	close(l);
}

/* A child asks, and is answered: so each is alone, and none may be lost. */
static void by_another_process(void)
{
	const pid_t me = getpid();
	int i, asks[2], status;
	pid_t child;
	char c;

	IS(pipe(asks), 0);
	urgent = 0;
	child = fork();
	if (!child) {
		for (i = 0; i < ROUNDS; i++) {
			if (kill(me, SIGURG) || read(asks[0], &c, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	for (i = 1; i <= ROUNDS; i++) {
		while (seen(&urgent) < i)
			;
		IS(write(asks[1], "", 1), 1);
	}
	IS(waitpid(child, &status, 0), child);
	IS(status, 0);
	IS(urgent, ROUNDS);
	close(asks[0]);
	close(asks[1]);
}

static int done;

static void *goes_on(void *arg)
{
	while (!seen(&done))
		;
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t[THREADS];
	int i;

	(void)argv;
	if (argc > 1)
		pthread_join(start(nothing, NULL), NULL);
	handle(SIGURG);
	handle(SIGWINCH);
	for (i = 0; i < THREADS; i++)
		t[i] = start(computes, NULL);
	for (i = 0; i < THREADS; i++)
		IS(pthread_kill(t[i], i % 2 ? SIGURG : SIGWINCH), 0);
	for (i = 0; i < THREADS; i++)
		IS(pthread_join(t[i], NULL), 0);
	IS(urgent, THREADS / 2);
	IS(resized, THREADS / 2);
	out_of_band();
	for (i = 0; i < THREADS; i++)
		t[i] = start(goes_on, NULL);
	by_another_process();
	__atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < THREADS; i++)
		IS(pthread_join(t[i], NULL), 0);
	return 0;
}
