/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trapped.c - a program in a sandbox that allows read() and write() but not their
 * younger kin, as browsers' do: SIGSYS comes for what is not allowed, and its handler says
 * so by write().
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "check.h"

static int said[2], pair[2];
static volatile int traps;

static void on_trap(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;
	struct iovec v[2] = { { (char *)"trapp", 5 }, { (char *)"ed\n", 3 } };

	(void)sig;
	(void)si;
	traps++;
	IS(writev(said[1], v, 2), 8);
	IS(write(said[1], "trapped\n", 8), 8);
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#else
	uc->uc_mcontext.regs[0] = (uint64_t)-ENOSYS;
#endif
}

static int shut_in(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_preadv2, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwritev2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			SECCOMP_FILTER_FLAG_TSYNC, &filter);
}

static void *echoes(void *arg)
{
	char c;

	while (read(pair[0], &c, 1) == 1 && c != '.')
		IS(write(pair[0], &c, 1), 1);
	return arg;
}

static void *asks(void *arg)
{
	char c;
	int i;

	for (i = 0; i < 100; i++) {
		IS(write(pair[1], "x", 1), 1);
		IS(read(pair[1], &c, 1), 1);
		IS(c, 'x');
	}
	IS(write(pair[1], ".", 1), 1);
	return arg;
}

int main(void)
{
	const struct sigaction act = { .sa_sigaction = on_trap,
				       .sa_flags = SA_SIGINFO | SA_NODEFER };
	pthread_t one, other;

	IS(pipe(said), 0);
	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	IS(sigaction(SIGSYS, &act, NULL), 0);
	one = start(echoes, NULL);
	if (!shut_in()) {
		puts("no seccomp");
		_exit(0);
	}
	other = start(asks, NULL);
	IS(pthread_join(other, NULL), 0);
	IS(pthread_join(one, NULL), 0);
	CHECK(traps <= 2 * 2); /* of each thread: not tried again */
	return 0;
}
