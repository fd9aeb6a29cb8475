/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_process.c - fork, vfork, exec, posix_spawn and popen by uthreads
 * while others are anywhere: in malloc, in stdio, in the loader, or wait for
 * the locks that the program's own atfork handlers take. A forked child uses
 * malloc, stdio, and uthreads and pthreads of its own; each child's end is
 * the one that was asked for.
 */
#include "soak.h"

#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static FILE *shared;

/* ---- as another program ---- */

int soak_child(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0;

	printf("child %u of the storm\n", n);
	fflush(stdout);
	return (int)(n % 100);
}

static void check_words(int fd, unsigned n)
{
	char text[128] = "", want[128];
	size_t len = 0;
	ssize_t got;

	while ((got = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)got;
	CHECK_EQ(got, 0);
	text[len] = 0;
	snprintf(want, sizeof(want), "child %u of the storm\n", n);
	CHECK(!strcmp(text, want));
}

static void execs(struct soak *s)
{
	unsigned n = soak_random(s, 1000000);
	char number[16];
	char *argv[] = { (char *)"soak", (char *)"--child", number, NULL };
	int p[2], vforks = (int)soak_random(s, 2);
	pid_t pid;

	snprintf(number, sizeof(number), "%u", n);
	CHECK(!pipe2(p, O_CLOEXEC));
	pid = vforks ? vfork() : fork();
	CHECK(pid >= 0);
	if (!pid) {
		dup2(p[1], 1);
		execve("/proc/self/exe", argv, environ);
		_exit(99);
	}
	CHECK(!close(p[1]));
	check_words(p[0], n);
	CHECK(!close(p[0]));
	ended_with(pid, (int)(n % 100));
}

static void spawns(struct soak *s)
{
	unsigned n = soak_random(s, 1000000);
	posix_spawn_file_actions_t fa;
	char number[16];
	char *argv[] = { (char *)"soak", (char *)"--child", number, NULL };
	pid_t pid;
	int p[2];

	snprintf(number, sizeof(number), "%u", n);
	CHECK(!pipe2(p, O_CLOEXEC));
	CHECK(!posix_spawn_file_actions_init(&fa));
	CHECK(!posix_spawn_file_actions_adddup2(&fa, p[1], 1));
	CHECK(!posix_spawn(&pid, "/proc/self/exe", &fa, NULL, argv, environ));
	CHECK(!posix_spawn_file_actions_destroy(&fa));
	CHECK(!close(p[1]));
	check_words(p[0], n);
	CHECK(!close(p[0]));
	ended_with(pid, (int)(n % 100));
}

static void pipes(struct soak *s)
{
	unsigned n = soak_random(s, 1000000), got = 0;
	char command[32];
	FILE *f;

	snprintf(command, sizeof(command), "echo %u; exit 7", n);
	f = popen(command, "re");
	CHECK(f);
	CHECK_EQ(fscanf(f, "%u", &got), 1);
	CHECK_EQ(got, n);
	got = (unsigned)pclose(f);
	CHECK(WIFEXITED(got) && WEXITSTATUS(got) == 7);
}

/* ---- handlers of the program's around each fork ---- */

/* A library's: one is registered before the runtime starts, one later. */
static struct guarded {
	uthread_mutex_t lock;
	uthread_t forks; /* who holds it for that, and */
	int twice[2]; /* always equal under the lock */
} guarded[2] = { { UTHREAD_MUTEX_INITIALIZER, NULL, { 0 } },
		 { UTHREAD_MUTEX_INITIALIZER, NULL, { 0 } } };

static void change(struct guarded *g)
{
	CHECK_EQ(uthread_mutex_lock(&g->lock), 0);
	g->twice[0]++;
	soak_spin(300);
	g->twice[1]++;
	CHECK_EQ(uthread_mutex_unlock(&g->lock), 0);
}

static void before_fork(struct guarded *g)
{
	CHECK_EQ(uthread_mutex_lock(&g->lock), 0);
	g->forks = uthread_self();
}

static void after_fork(struct guarded *g)
{
	CHECK(g->forks == uthread_self());
	CHECK_EQ(g->twice[0], g->twice[1]);
	CHECK_EQ(uthread_mutex_unlock(&g->lock), 0);
}

#define HANDLERS(i)                       \
	static void prepare##i(void)      \
	{                                 \
		before_fork(&guarded[i]); \
	}                                 \
	static void done##i(void)         \
	{                                 \
		after_fork(&guarded[i]);  \
	}

HANDLERS(0)
HANDLERS(1)

__attribute__((constructor)) static void handlers_at_start(void)
{
	CHECK(!pthread_atfork(prepare0, done0, done0));
}

/* ---- in the child of a fork ---- */

static void *counts(void *arg)
{
	unsigned *n = (unsigned *)arg;
	void *p;

	for (int i = 0; i < 50; i++) {
		p = malloc(10 + i * 30);
		CHECK(p);
		memset(p, i, 10 + i * 30);
		soak_spin(200);
		free(p);
	}
	change(&guarded[0]);
	change(&guarded[1]);
	add(n, 1);
	return arg;
}

static void in_the_child(struct soak *s)
{
	unsigned n = 0;
	char *p = (char *)malloc(100000);
	uthread_t t[3];
	pthread_t pt[2];

	CHECK(p);
	memset(p, 1, 100000);
	free(p);
	for (int i = 0; i < 100; i++)
		free(malloc(soak_random(s, 5000)));
	fprintf(shared, "child of %x\n", s->tag);
	CHECK(dlsym(RTLD_DEFAULT, "malloc"));
	if (TEST_EMULATED)
		return; /* qemu-user cannot start threads there */
	CHECK(uthread_workers() >= 1);
	for (int i = 0; i < 3; i++)
		t[i] = spawn(counts, &n);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&pt[i], NULL, counts, &n));
	for (int i = 0; i < 3; i++)
		CHECK(joined(t[i]) == &n);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(pt[i], NULL));
	CHECK_EQ(n, 5);
}

static void forks(struct soak *s)
{
	int want = 1 + (int)soak_random(s, 90);
	uthread_t me = uthread_self();
	pid_t pid = fork();

	CHECK(pid >= 0);
	CHECK(uthread_self() == me);
	if (!pid) {
		in_the_child(s);
		_exit(want);
	}
	ended_with(pid, want);
}

static void between(struct soak *s)
{
	void *p[20];

	for (int i = 0; i < 20; i++) {
		p[i] = malloc(100 + soak_random(s, 3000));
		CHECK(p[i]);
	}
	fprintf(shared, "parent %x %f\n", s->tag, 1.5);
	change(&guarded[soak_random(s, 2)]);
	for (int i = 0; i < 20; i++)
		free(p[i]);
}

static void setup(void)
{
	shared = fopen("/dev/null", "we");
	CHECK(shared);
	CHECK(!pthread_atfork(prepare1, done1, done1));
}

static void round_of_process(struct soak *s)
{
	for (int i = 0; i < 10; i++)
		between(s);
	switch (soak_random(s, TEST_EMULATED ? 1 : 8)) {
	case 0:
	case 1:
	case 2:
		forks(s);
		break;
	case 3:
	case 4:
		execs(s);
		break;
	case 5:
		spawns(s);
		break;
	case 6:
		if (soak_random(s, 4) == 0)
			pipes(s);
		break;
	default:
		break;
	}
}

STORM(process, .uthreads = 40, .setup = setup, .round = round_of_process)
