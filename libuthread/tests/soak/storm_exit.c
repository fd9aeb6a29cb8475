/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_exit.c - hundreds of uthreads end at the same moment, in every way in
 * which a uthread may end, here and in children; and a process ends, in every
 * way in which it may, while they run, wait and end.
 */
#include "soak.h"

#include <pthread.h>
#include <sys/wait.h>

#define CROWD 60

static uthread_key_t key;
static pthread_key_t pkey;

struct crowd {
	uthread_mutex_t lock;
	uthread_cond_t go, all;
	unsigned waiting, began;
	unsigned ended, freed; /* atomic */
	int gone;
};

static void at_end(void *crowd)
{
	add(&((struct crowd *)crowd)->freed, 1);
}

/* Waits with the others and ends with them. */
static void *member(void *arg)
{
	struct crowd *c = (struct crowd *)arg;
	char *p = (char *)malloc(300);
	unsigned how;

	CHECK(p);
	CHECK_EQ(uthread_setspecific(key, c), 0);
	CHECK_EQ(pthread_setspecific(pkey, c), 0);
	CHECK_EQ(uthread_mutex_lock(&c->lock), 0);
	how = c->began++;
	if (++c->waiting == CROWD)
		CHECK_EQ(uthread_cond_signal(&c->all), 0);
	while (!c->gone)
		CHECK_EQ(uthread_cond_wait(&c->go, &c->lock), 0);
	CHECK_EQ(uthread_mutex_unlock(&c->lock), 0);
	free(p);
	add(&c->ended, 1);
	if (how % 4 == 1)
		uthread_exit(c);
	if (how % 4 == 2)
		pthread_exit(c);
	return c;
}

static struct crowd *gather(uthread_t t[CROWD])
{
	struct crowd *c = (struct crowd *)calloc(1, sizeof(*c));

	CHECK(c);
	for (int i = 0; i < CROWD; i++)
		t[i] = spawn(member, c);
	return c;
}

static void let_go(struct crowd *c)
{
	CHECK_EQ(uthread_mutex_lock(&c->lock), 0);
	while (c->waiting < CROWD)
		CHECK_EQ(uthread_cond_wait(&c->all, &c->lock), 0);
	c->gone = 1;
	CHECK_EQ(uthread_cond_broadcast(&c->go), 0);
	CHECK_EQ(uthread_mutex_unlock(&c->lock), 0);
}

static void mass_exit(void)
{
	uthread_t t[CROWD];
	struct crowd *c = gather(t);

	let_go(c);
	for (int i = 0; i < CROWD; i++)
		CHECK(joined(t[i]) == c);
	CHECK_EQ(load(&c->ended), CROWD);
	CHECK_EQ(load(&c->freed), 2 * CROWD);
	free(c);
}

/* ---- ends of processes ---- */

static void *spins(void *arg)
{
	for (;;) {
		free(malloc(500));
		soak_spin(1000);
	}
	return arg;
}

static void *ends_all(void *status)
{
	exit((int)(intptr_t)status);
}

/*
 * exit() writes what is in the buffers of the parent's streams and puts the
 * offsets of its files where they read on: both are shared with it.
 */
static void lose_files(void)
{
	int null = open("/dev/null", O_RDWR), fd;

	CHECK(null > 2);
	for (fd = 3; fd < 1024; fd++)
		if (fd != null && fcntl(fd, F_GETFD) >= 0)
			CHECK(dup2(null, fd) == fd);
}

static void end_of_process(unsigned how, int status)
{
	uthread_t t[CROWD];
	struct crowd *c;

	lose_files();
	if (how & 1)
		mass_exit();
	c = gather(t);
	for (int i = 0; i < 4; i++)
		spawn(spins, NULL);
	if (how & 2)
		let_go(c); /* and while they end: */
	if (how & 4)
		spawn(ends_all, (void *)(intptr_t)status);
	else if (how & 8)
		exit(status);
	else
		_exit(status);
	for (;;)
		uthread_sleep(1000 * MS);
}

static void child_ends(struct soak *s)
{
	int want = 1 + (int)soak_random(s, 90), status = 0;
	unsigned how = soak_random(s, 16);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		end_of_process(how, want);
	CHECK(waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != want)
		fprintf(stderr, "way %u: status %x, not an exit with %d\n", how,
			(unsigned)status, want);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == want);
}

static void setup(void)
{
	CHECK_EQ(uthread_key_create(&key, at_end), 0);
	CHECK(!pthread_key_create(&pkey, at_end));
}

static void round_of_exit(struct soak *s)
{
	if (!TEST_EMULATED && soak_random(s, 4) == 0)
		child_ends(s);
	else
		mass_exit();
}

STORM(exit, .uthreads = 30, .rounds = 4, .setup = setup, .round = round_of_exit)
