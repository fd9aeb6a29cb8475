/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points.c - a program for step.c: a few uthreads on one worker, with own and
 * with shared TLS, go through the runtime by all its doors, and through libc,
 * for the time given (points SECONDS), and check what they see. One worker:
 * then all is stepped, and who is stopped is followed by another at once.
 */
#include <fenv.h>
#include <math.h>

#include "coroutine.h"
#include "util.h"

static uthread_mutex_t mutex = UTHREAD_MUTEX_INITIALIZER;
static uthread_mutex_t recursive = UTHREAD_RECURSIVE_MUTEX_INITIALIZER;
static uthread_cond_t cond = UTHREAD_COND_INITIALIZER;
static uthread_sem_t sem = UTHREAD_SEM_INITIALIZER(1);
static uthread_spin_t spin = UTHREAD_SPIN_INITIALIZER;
static uthread_barrier_t barrier;
static uthread_key_t key;
static unsigned inside_mutex, inside_sem, inside_spin, turn, alone;
static int stop;
static __thread unsigned long mine;

/* ---- each is one way through the runtime ---- */

static void with_mutex(unsigned n)
{
	struct timespec soon;

	CHECK_EQ(uthread_mutex_lock(&mutex), 0);
	CHECK_EQ(inside_mutex++, 0);
	if (n % 4 == 0)
		CHECK_EQ(uthread_mutex_trylock(&mutex), EBUSY);
	CHECK_EQ(--inside_mutex, 0);
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	soon = test_in(n % 8 * 1000);
	if (!uthread_mutex_timedlock(&mutex, &soon))
		CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(uthread_mutex_lock(&recursive), 0);
	CHECK_EQ(uthread_mutex_lock(&recursive), 0);
	CHECK_EQ(uthread_mutex_unlock(&recursive), 0);
	CHECK_EQ(uthread_mutex_unlock(&recursive), 0);
}

static void with_cond(unsigned n)
{
	struct timespec soon = test_in(20000);

	(void)n;
	CHECK_EQ(uthread_mutex_lock(&mutex), 0);
	turn++;
	CHECK_EQ(uthread_cond_signal(&cond), 0);
	uthread_cond_timedwait(&cond, &mutex, &soon);
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(uthread_cond_broadcast(&cond), 0);
}

static void with_sem(unsigned n)
{
	(void)n;
	CHECK_EQ(uthread_sem_wait(&sem), 0);
	CHECK_EQ(inside_sem++, 0);
	uthread_yield();
	CHECK_EQ(--inside_sem, 0);
	CHECK_EQ(uthread_sem_post(&sem), 0);
}

static void with_spin(unsigned n)
{
	(void)n;
	CHECK_EQ(uthread_spin_lock(&spin), 0);
	CHECK_EQ(inside_spin++, 0);
	CHECK_EQ(--inside_spin, 0);
	CHECK_EQ(uthread_spin_unlock(&spin), 0);
	CHECK_EQ(uthread_preempt_disable(), 0);
	CHECK_EQ(uthread_preempt_disable(), 0);
	CHECK_EQ(alone++, 0); /* on the only worker */
	CHECK_EQ(--alone, 0);
	CHECK_EQ(uthread_preempt_enable(), 0);
	CHECK_EQ(uthread_preempt_enable(), 0);
}

static void *child(void *arg)
{
	uthread_setspecific(key, arg);
	mine = (unsigned long)arg;
	uthread_yield();
	CHECK(uthread_getspecific(key) == arg);
	return arg;
}

static void with_threads(unsigned n)
{
	uthread_t a, b;

	a = spawn_tls(n & 1 ? UTHREAD_TLS_SHARED : UTHREAD_TLS_DEFAULT, child,
		      (void *)(uintptr_t)n);
	b = spawn(child, NULL);
	CHECK_EQ(uthread_detach(b), 0);
	CHECK(joined(a) == (void *)(uintptr_t)n);
	uthread_sleep(1000);
}

static void co_body(void *arg)
{
	unsigned *n = (unsigned *)arg;

	++*n;
	coroutine_yield();
	++*n;
}

static void with_coroutines(unsigned n)
{
	coroutine_scheduler_t *s;
	unsigned ran = 0, i;

	CHECK_EQ(coroutine_scheduler_init(&s, NULL), 0);
	for (i = 0; i < 1 + n % 3; i++)
		CHECK_EQ(coroutine_create(s, NULL, NULL, co_body, &ran), 0);
	CHECK_EQ(coroutine_run(s), 0);
	CHECK_EQ(ran, 2 * i);
	CHECK_EQ(coroutine_scheduler_destroy(s), 0);
}

/* libc, and what must be as it was: the flags, the x87 and vector state. */
static void with_libc(unsigned n)
{
	const int round = n & 1 ? FE_UPWARD : FE_TOWARDZERO;
	volatile double x = 2, y;
	char text[64], *p;
	long double z;

	fesetround(round);
	y = sqrt(x) * (n + 1);
	z = (long double)y / 3;
	snprintf(text, sizeof(text), "%u %.3f %s", n, 1.5, "text");
	fesetround(FE_TONEAREST);
	p = (char *)malloc(1 + n % 3000);
	CHECK(p);
	memset(p, (int)n, 1 + n % 3000);
	errno = (int)n;
	fesetround(round);
	CHECK(y == sqrt(x) * (n + 1) && z == (long double)y / 3);
	CHECK_EQ(fegetround(), round);
	fesetround(FE_TONEAREST);
	CHECK_EQ(p[n % 3000], (char)n);
	free(p);
	CHECK_EQ(atoi(text), n);
}

static void (*const ways[])(unsigned) = { with_mutex,	with_cond,
					  with_sem,	with_spin,
					  with_threads, with_coroutines,
					  with_libc };
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* ---- the uthreads ---- */

static unsigned rounds;

static void *go(void *arg)
{
	const uintptr_t number = (uintptr_t)arg;
	enum uthread_tls mode;
	unsigned n;

	CHECK_EQ(uthread_gettls(uthread_self(), &mode), 0);
	for (n = (unsigned)number; !load(&stop); n++) {
		if (mode == UTHREAD_TLS_OWN) {
			mine = number;
			errno = (int)number;
		}
		ways[n % WAYS](n);
		if (mode == UTHREAD_TLS_OWN)
			CHECK_EQ(mine, number);
		add(&rounds, 1);
	}
	uthread_barrier_wait(&barrier);
	return arg;
}

int main(int argc, char **argv)
{
	const double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	struct uthread_config c;
	struct uthread_stats s;
	uthread_t t[5];
	uintptr_t i;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = 1;
	c.spares = -1; /* a thread that is stepped looks as if it slept */
	CHECK_EQ(uthread_init(&c), 0);
	CHECK_EQ(uthread_key_create(&key, NULL), 0);
	CHECK_EQ(uthread_barrier_init(&barrier, NULL, 5), 0);
	for (i = 0; i < 5; i++)
		t[i] = spawn_tls(i < 4 ? UTHREAD_TLS_DEFAULT :
					 UTHREAD_TLS_SHARED,
				 go, (void *)i);
	usleep((useconds_t)(seconds * 1e6));
	do { /* a busy machine takes longer for the first */
		usleep(1000);
		CHECK_EQ(uthread_stats(&s, sizeof(s)), 0);
	} while (!load(&rounds) || !s.preempted);
	store(&stop, 1);
	for (i = 0; i < 5; i++)
		CHECK(joined(t[i]) == (void *)i);
	CHECK_EQ(uthread_stats(&s, sizeof(s)), 0);
	printf("%u rounds, %llu ticks, %llu taken\n", rounds,
	       (unsigned long long)s.ticks, (unsigned long long)s.preempted);
	return 0;
}
