/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_to_main.c - a signal to the process is handled by main, which lets it in, while
 * others compute: it ends what main sleeps in, and may leave main's code by a jump. One
 * process sends, once each time.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

#define ROUNDS 60 /* of each kind */
#define HOGS 3

enum { IN_POLL, IN_PAUSE, COMPUTES, JUMPS, KINDS };

static int *begun; /* rounds; of both processes */
static int handled, elsewhere;
static pthread_t main_is;
static volatile bool jumps;
static sigjmp_buf back;

static void on_signal(int sig)
{
	(void)sig;
	if (!pthread_equal(pthread_self(), main_is))
		__atomic_fetch_add(&elsewhere, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
	if (jumps && pthread_equal(pthread_self(), main_is))
		siglongjmp(back, 1);
}

static void *computes(void *arg)
{
	for (;;)
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return arg;
}

/* ---- who sends ---- */

static void until_in(pid_t pid, long call)
{
	char path[64], line[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	/* Who was stopped in poll() goes on by another number. */
	while ((atol(line) != call && atol(line) != SYS_restart_syscall) ||
	       !strchr(line, ' ')) {
		usleep(200);
		f = fopen(path, "r");
		CHECK(f);
		if (!fgets(line, sizeof(line), f) || line[0] == 'r')
			line[0] = 0; /* it runs */
		fclose(f);
	}
}

static void sends(pid_t to)
{
	int i;

	for (i = 0; i < KINDS * ROUNDS; i++) {
		while (__atomic_load_n(begun, __ATOMIC_SEQ_CST) <= i)
			usleep(100);
		switch (i % KINDS) {
		case IN_POLL:
			until_in(to, SYS_poll);
			break;
		case IN_PAUSE:
			until_in(to, SYS_pause);
			break;
		default:
			usleep(1500);
		}
		IS(kill(to, SIGUSR1), 0);
	}
	_exit(0);
}

/* ---- main ---- */

static void until_handled(int n)
{
	while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) < n)
		;
}

static void receives(int i)
{
	__atomic_store_n(begun, i + 1, __ATOMIC_SEQ_CST);
	switch (i % KINDS) {
	case IN_POLL:
		IS(poll(NULL, 0, -1), -1);
		IS(errno, EINTR);
		break;
	case IN_PAUSE:
		IS(pause(), -1);
		IS(errno, EINTR);
		break;
	default:
		until_handled(i + 1);
	}
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	const pid_t me = getpid();
	pid_t child;
	int i, status;

	begun = mmap(NULL, sizeof(*begun), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(begun != MAP_FAILED);
	main_is = pthread_self();
	IS(sigaction(SIGUSR1, &sa, NULL), 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sends(me);
	}
	for (i = 0; i < HOGS; i++)
		start(computes, NULL);
	for (i = 0; i < KINDS * ROUNDS; i++) {
		jumps = i % KINDS == JUMPS;
		if (!sigsetjmp(back, 1))
			receives(i);
		IS(handled, i + 1);
	}
	IS(elsewhere, 0);
	IS(waitpid(child, &status, 0), child);
	IS(status, 0);
	return 0;
}
