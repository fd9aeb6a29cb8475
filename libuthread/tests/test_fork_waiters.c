/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork_waiters.c - who waits in the parent is not in the child: nothing
 * that is done to an object there wakes it.
 */
#include "fork_util.h"

/* Give whoever is ready the time to run. */
static void let_run(void)
{
	for (int i = 0; i < 20; i++) {
		if (!TEST_EMULATED)
			in_uthread(nothing, NULL);
		uthread_yield();
	}
}

/* ---- who waits for what in the parent ---- */

static struct {
	uthread_mutex_t mutex, inheriting, outer;
	uthread_cond_t cond;
	uthread_sem_t sem;
	uthread_barrier_t barrier;
	uthread_once_t once;
	uthread_rwlock_t rwlock;
	int waiting, ghosts, once_runs, release;
} o;

static void comes(void)
{
	add(&o.waiting, 1);
}

static void *waits_mutex(void *arg)
{
	comes();
	CHECK_EQ(uthread_mutex_lock(arg), 0);
	add(&o.ghosts, 1);
	CHECK_EQ(uthread_mutex_unlock(arg), 0);
	return arg;
}

static void *waits_cond(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&o.outer), 0);
	comes();
	CHECK_EQ(uthread_cond_wait(&o.cond, &o.outer), 0);
	add(&o.ghosts, 1);
	CHECK_EQ(uthread_mutex_unlock(&o.outer), 0);
	return arg;
}

static void *waits_sem(void *arg)
{
	comes();
	CHECK_EQ(uthread_sem_wait(&o.sem), 0);
	add(&o.ghosts, 1);
	return arg;
}

static void *waits_barrier(void *arg)
{
	comes();
	uthread_barrier_wait(&o.barrier);
	add(&o.ghosts, 1);
	return arg;
}

static void once_fn(void)
{
	add(&o.once_runs, 1);
	/* In the parent it takes until it may end; there is nobody in the
	 * child who is still at it. */
	while (o.once_runs == 1 && !load(&o.release))
		uthread_sleep(MS);
}

static void *waits_once(void *arg)
{
	comes();
	CHECK_EQ(uthread_once(&o.once, once_fn), 0);
	return arg;
}

static void *waits_read(void *arg)
{
	comes();
	CHECK_EQ(uthread_rwlock_rdlock(&o.rwlock), 0);
	add(&o.ghosts, 1);
	CHECK_EQ(uthread_rwlock_unlock(&o.rwlock), 0);
	return arg;
}

static void *waits_write(void *arg)
{
	comes();
	CHECK_EQ(uthread_rwlock_wrlock(&o.rwlock), 0);
	add(&o.ghosts, 1);
	CHECK_EQ(uthread_rwlock_unlock(&o.rwlock), 0);
	return arg;
}

static void *waits_join(void *arg)
{
	comes();
	joined(*(uthread_t *)arg);
	add(&o.ghosts, 1);
	return arg;
}

/* The child, which holds `mutex`, `inheriting` and `rwlock`. */
static void use_all(void)
{
	int value;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(uthread_mutex_unlock(&o.mutex), 0);
		let_run();
		CHECK_EQ(uthread_mutex_trylock(&o.mutex), 0);
		CHECK_EQ(uthread_mutex_unlock(&o.inheriting), 0);
		let_run();
		CHECK_EQ(uthread_mutex_trylock(&o.inheriting), 0);
	}
	CHECK_EQ(uthread_mutex_unlock(&o.mutex), 0);
	CHECK_EQ(uthread_mutex_destroy(&o.mutex), 0);
	CHECK_EQ(uthread_rwlock_unlock(&o.rwlock), 0);
	let_run();
	CHECK_EQ(uthread_rwlock_tryrdlock(&o.rwlock), 0);
	CHECK_EQ(uthread_rwlock_trywrlock(&o.rwlock), EBUSY);
	CHECK_EQ(uthread_rwlock_unlock(&o.rwlock), 0);
	CHECK_EQ(uthread_rwlock_trywrlock(&o.rwlock), 0);
	CHECK_EQ(uthread_rwlock_unlock(&o.rwlock), 0);
	let_run();
	CHECK_EQ(uthread_rwlock_destroy(&o.rwlock), 0);
	CHECK_EQ(uthread_cond_signal(&o.cond), 0);
	let_run();
	CHECK_EQ(uthread_cond_broadcast(&o.cond), 0);
	let_run();
	CHECK_EQ(uthread_cond_destroy(&o.cond), 0);
	CHECK_EQ(uthread_sem_post(&o.sem), 0);
	let_run();
	CHECK_EQ(uthread_sem_getvalue(&o.sem, &value), 0);
	CHECK_EQ(value, 1);
	CHECK_EQ(uthread_sem_trywait(&o.sem), 0);
	CHECK_EQ(uthread_sem_destroy(&o.sem), 0);
	CHECK_EQ(uthread_barrier_destroy(&o.barrier), 0);
	CHECK_EQ(uthread_once(&o.once, once_fn), 0);
	CHECK_EQ(uthread_once(&o.once, once_fn), 0);
	CHECK_EQ(o.once_runs, 2);
	let_run();
	CHECK_EQ(o.ghosts, 0);
}

static void *forks_among_waiters(void *arg)
{
	pid_t pid;

	CHECK_EQ(uthread_mutex_lock(&o.mutex), 0);
	CHECK_EQ(uthread_mutex_lock(&o.inheriting), 0);
	CHECK_EQ(uthread_rwlock_wrlock(&o.rwlock), 0);
	comes();
	while (!load(&o.release)) {
		/* In the child it is the second who runs once_fn(). */
		if (load(&o.waiting) < *(int *)arg || !load(&o.once_runs)) {
			uthread_sleep(MS);
			continue;
		}
		uthread_sleep(20 * MS); /* time for the last, most likely */
		pid = fork();
		if (!pid) {
			use_all();
			_exit(7);
		}
		ended_with(pid, 7);
		/* Not behind it: some wait for what main gives them then. */
		CHECK_EQ(load(&o.ghosts), 0);
		store(&o.release, 1);
	}
	CHECK_EQ(uthread_mutex_unlock(&o.mutex), 0);
	CHECK_EQ(uthread_mutex_unlock(&o.inheriting), 0);
	CHECK_EQ(uthread_rwlock_unlock(&o.rwlock), 0);
	return arg;
}

static void set_up(void)
{
	uthread_mutexattr_t a;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, UTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(uthread_mutex_init(&o.mutex, NULL), 0);
	CHECK_EQ(uthread_mutex_init(&o.outer, NULL), 0);
	CHECK_EQ(uthread_mutex_init(&o.inheriting, &a), 0);
	CHECK_EQ(uthread_cond_init(&o.cond, NULL), 0);
	CHECK_EQ(uthread_rwlock_init(&o.rwlock, NULL), 0);
	CHECK_EQ(uthread_sem_init(&o.sem, 0), 0);
	CHECK_EQ(uthread_barrier_init(&o.barrier, NULL, 20), 0);
}

static void release_all(int waiters)
{
	while (!load(&o.release))
		usleep(1000);
	for (int i = 0; i < waiters; i++)
		CHECK_EQ(uthread_sem_post(&o.sem), 0);
	/* Who has come holds the mutex until it waits. */
	CHECK_EQ(uthread_mutex_lock(&o.outer), 0);
	CHECK_EQ(uthread_cond_broadcast(&o.cond), 0);
	CHECK_EQ(uthread_mutex_unlock(&o.outer), 0);
}

/* Two of a kind: the queue has a head and a tail. */
TEST(waiters_of_the_parent_are_gone)
{
	int want = 17;
	uthread_t t[16], f;

	start(2);
	set_up();
	f = spawn(forks_among_waiters, &want);
	while (!load(&o.waiting))
		usleep(1000);
	for (int i = 0; i < 16; i += 8) {
		t[i] = spawn(waits_mutex, &o.mutex);
		t[i + 1] = spawn(waits_mutex, &o.inheriting);
		t[i + 2] = spawn(waits_cond, NULL);
		t[i + 3] = spawn(waits_sem, NULL);
		t[i + 4] = spawn(waits_barrier, NULL);
		t[i + 5] = spawn(waits_once, NULL);
		t[i + 6] = i ? spawn(nothing, NULL) : spawn(waits_join, &f);
		t[i + 7] = spawn(i ? waits_write : waits_read, NULL);
		if (i)
			comes(); /* one may join */
	}
	release_all(2);
	for (int i = 0; i < 16; i++)
		if (i != 4 && i != 12) /* the barrier is never full */
			joined(t[i]);
}

static void *pthread_waits(void *arg)
{
	return ((void *(*)(void *))arg)(&o.mutex);
}

TEST(waiting_pthreads_of_the_parent_are_gone)
{
	void *(*const what[])(void *) = { waits_mutex,	 waits_cond, waits_sem,
					  waits_barrier, waits_once, waits_read,
					  waits_write };
	int want = 15;
	pthread_t t[14];
	uthread_t f;

	start(2);
	set_up();
	f = spawn(forks_among_waiters, &want);
	while (!load(&o.waiting))
		usleep(1000);
	for (int i = 0; i < 14; i++)
		CHECK(!pthread_create(&t[i], NULL, pthread_waits,
				      (void *)what[i % 7]));
	release_all(2);
	joined(f);
	for (int i = 0; i < 14; i++)
		if (i % 7 != 3)
			CHECK(!pthread_join(t[i], NULL));
}

/* ---- the child's end as a thread ---- */

static void *watches(void *arg)
{
	(void)arg;
	while (!load(&o.release))
		usleep(1000);
	uthread_sleep(50 * MS);
	_exit(o.ghosts ? 1 : 9);
}

static uthread_t forker;

static void *starts_a_watcher(void *arg)
{
	pid_t pid;

	while (load(&o.waiting) < 1)
		uthread_sleep(MS);
	uthread_sleep(20 * MS);
	pid = fork();
	if (pid) {
		ended_with(pid, 9);
		return arg;
	}
	spawn(watches, NULL);
	o.release = 1;
	return arg; /* must not wake who waits for that in the parent */
}

TEST(the_end_in_a_child_wakes_nobody_of_the_parent)
{
	uthread_t j;

	need_threads_in_a_child();
	start(2);
	forker = spawn(starts_a_watcher, NULL);
	j = spawn(waits_join, &forker);
	joined(j);
}

TEST_MAIN()
