/* SPDX-License-Identifier: Apache-2.0 */
/* test_cond.c - conditions: order, both clocks, shared, destroyed at once, cancelled. */
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int turn;

static void *takes_turns(void *arg)
{
	const int me = (int)(long)arg;
	int i;

	pthread_mutex_lock(&m);
	for (i = 0; i < 500; i++) {
		while (turn % 4 != me)
			pthread_cond_wait(&c, &m);
		turn++;
		pthread_cond_broadcast(&c);
	}
	pthread_mutex_unlock(&m);
	return NULL;
}

static void test_turns(void)
{
	pthread_t t[4];
	long i;

	for (i = 0; i < 4; i++)
		t[i] = start(takes_turns, (void *)i);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	IS(turn, 2000);
}

static int items, taken;

static void *takes(void *arg)
{
	pthread_mutex_lock(&m);
	while (!items)
		pthread_cond_wait(&c, &m);
	items--;
	taken++;
	pthread_mutex_unlock(&m);
	return arg;
}

/* Each signal wakes somebody. */
static void test_signals(void)
{
	pthread_t t[50];
	int i;

	for (i = 0; i < 50; i++)
		t[i] = start(takes, NULL);
	for (i = 0; i < 50; i++) {
		pthread_mutex_lock(&m);
		items++;
		pthread_cond_signal(&c);
		pthread_mutex_unlock(&m);
	}
	for (i = 0; i < 50; i++)
		pthread_join(t[i], NULL);
	IS(taken, 50);
}

static void test_clocks(void)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 3);
	pthread_condattr_t attr;
	pthread_cond_t mono;

	pthread_mutex_lock(&m);
	IS(pthread_cond_timedwait(&c, &m, &t), ETIMEDOUT);
	t = in_ms(CLOCK_MONOTONIC, 3);
	IS(pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	IS(pthread_cond_init(&mono, &attr), 0);
	t = in_ms(CLOCK_MONOTONIC, 3);
	IS(pthread_cond_timedwait(&mono, &m, &t), ETIMEDOUT);
	t.tv_nsec = 1000000000;
	IS(pthread_cond_timedwait(&mono, &m, &t), EINVAL);
	IS(pthread_cond_destroy(&mono), 0);
	pthread_condattr_destroy(&attr);
	pthread_mutex_unlock(&m);
}

struct gone {
	pthread_cond_t c;
	int ready, done;
};

static void *waits_on_gone(void *arg)
{
	struct gone *g = arg;

	pthread_mutex_lock(&m);
	g->ready++;
	pthread_cond_signal(&c);
	while (!g->done)
		pthread_cond_wait(&g->c, &m);
	pthread_mutex_unlock(&m);
	return NULL;
}

/* `done` is looked at under the mutex, so it has to stay; the condition need not. */
static void test_destroyed(void)
{
	static struct gone g[20];
	pthread_t t[20][5];
	int i, j;

	for (i = 0; i < 20; i++) {
		pthread_cond_init(&g[i].c, NULL);
		for (j = 0; j < 5; j++)
			t[i][j] = start(waits_on_gone, &g[i]);
		pthread_mutex_lock(&m);
		while (g[i].ready < 5)
			pthread_cond_wait(&c, &m);
		g[i].done = 1;
		pthread_cond_broadcast(&g[i].c);
		IS(pthread_cond_destroy(&g[i].c), 0);
		memset(&g[i].c, 0x55, sizeof(g[i].c));
		pthread_mutex_unlock(&m);
		for (j = 0; j < 5; j++)
			pthread_join(t[i][j], NULL);
		for (j = 0; j < (int)sizeof(g[i].c); j++)
			IS(((unsigned char *)&g[i].c)[j], 0x55);
	}
}

static int unlocked;

static void unlocks(void *arg)
{
	unlocked++;
	IS(pthread_mutex_unlock(arg), 0);
}

static void *is_cancelled(void *arg)
{
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&m);
	pthread_cleanup_push(unlocks, &m);
	items = 1;
	for (;;)
		pthread_cond_wait(&never, &m);
	pthread_cleanup_pop(1);
	return arg;
}

static void test_cancelled(void)
{
	void *value;
	pthread_t t;

	items = 0;
	t = start(is_cancelled, NULL);
	IS(pthread_cancel(t), 0);
	IS(pthread_join(t, &value), 0);
	CHECK(value == PTHREAD_CANCELED);
	IS(unlocked, items); /* neither, or both */
	IS(pthread_mutex_trylock(&m), 0);
	pthread_mutex_unlock(&m);
}

static void test_shared(void)
{
	struct shared {
		pthread_mutex_t m;
		pthread_cond_t c;
		int turn;
	} *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t ma;
	pthread_condattr_t ca;
	int i, me, status;
	pid_t child;

	pthread_mutexattr_init(&ma);
	pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&s->m, &ma);
	pthread_condattr_init(&ca);
	pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&s->c, &ca);
	child = fork();
	me = !child;
	pthread_mutex_lock(&s->m);
	for (i = 0; i < 100; i++) {
		while (s->turn % 2 != me)
			pthread_cond_wait(&s->c, &s->m);
		s->turn++;
		pthread_cond_signal(&s->c);
	}
	pthread_mutex_unlock(&s->m);
	if (!child)
		_exit(0);
	IS(waitpid(child, &status, 0), child);
	IS(status, 0);
	IS(s->turn, 200);
}

int main(void)
{
	test_turns();
	test_signals();
	test_clocks();
	test_destroyed();
	test_cancelled();
	test_shared();
	return 0;
}
