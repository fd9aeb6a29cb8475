/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_chan_home.c - a channel's lock has a home: it comes there, strangers take it
 * away, nobody is inside together with another, and a waiter has one end.
 */
#include "fork_util.h"

#include "chan/chan.h"

static uthread_chan_t c;

static void open_chan(size_t capacity)
{
	CHECK_EQ(uthread_chan_create(&c, sizeof(uint64_t), capacity), 0);
}

static void in_and_out(int times)
{
	uint64_t v;

	for (int i = 0; i < times; i++) {
		v = (uint64_t)i;
		CHECK_EQ(uthread_chan_send(c, &v), 0);
		CHECK_EQ(uthread_chan_recv(c, &v), 0);
		CHECK_EQ(v, (uint64_t)i);
	}
}

static bool at_home(void)
{
	return load(&c->home) == rt.workers[0]->home;
}

/* By a plain pthread, whose home nothing is. */
static void *visits(void *arg)
{
	const uint64_t v = 77;

	CHECK_EQ(uthread_chan_trysend(c, &v), 0);
	return arg;
}

static void visit(void)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, visits, NULL));
	CHECK(!pthread_join(t, NULL));
}

static void *comes_and_goes(void *arg)
{
	uint32_t after;
	uint64_t v;

	open_chan(2);
	CHECK(!at_home());
	in_and_out(100);
	CHECK(at_home());
	after = c->home_after;
	visit();
	CHECK_EQ(load(&c->home), NOWHERE);
	CHECK(c->home_after > after);
	CHECK_EQ(uthread_chan_recv(c, &v), 0);
	CHECK_EQ(v, 77);
	in_and_out(100);
	CHECK(!at_home()); /* it takes more of them now */
	in_and_out((int)c->home_after);
	CHECK(at_home());
	CHECK_EQ(uthread_chan_destroy(c), 0);
	return arg;
}

TEST(it_comes_home_and_strangers_take_it_away)
{
	start_workers(1);
	if (!bias_membarrier)
		SKIP("no membarrier here");
	in_uthread(comes_and_goes, NULL);
}

/* ---- one inside at a time ---- */

#define HOMES 2000

static int homes, stop;

/* As one that is inside by chance would do it by mistake: a plain counter, and a
 * home that is lost and found all the time. */
static uint64_t inside, turns;

static void *hammers(void *arg)
{
	uint64_t turn;

	while (!load(&stop)) {
		chan_lock(c);
		CHECK_EQ(add(&inside, 1), 1);
		turn = ++turns;
		c->home_after = 4;
		if (worker_current() && worker_current()->at_home == c) {
			if (add(&homes, 1) == HOMES)
				store(&stop, 1);
			for (int i = 0; i < 1000; i++)
				arch_pause(); /* others come meanwhile */
		}
		CHECK_EQ(add(&inside, -1), 0);
		chan_unlock(c);
		if (!((uintptr_t)arg & 1) && turn % 64 == 0)
			uthread_yield();
		if ((uintptr_t)arg & 1 && uthread_self())
			uthread_yield();
		else if ((uintptr_t)arg & 1)
			usleep(50);
	}
	return arg;
}

TEST(one_is_inside_whoever_is_at_home)
{
	uthread_t t[4];
	pthread_t p;

	start_workers(2);
	if (!bias_membarrier)
		SKIP("no membarrier here");
	open_chan(0);
	for (uintptr_t i = 0; i < 4; i++)
		t[i] = spawn(hammers, (void *)i);
	CHECK(!pthread_create(&p, NULL, hammers, (void *)1));
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	CHECK(!pthread_join(p, NULL));
	CHECK_EQ(uthread_chan_destroy(c), 0);
}

/* A program that shuts itself in when it has started: membarrier(2) was there, and
 * homes are. */
TEST(one_is_inside_when_membarrier_is_refused_later)
{
	uthread_t t[4];

	start_workers(2);
	if (!load(&bias_membarrier))
		SKIP("no membarrier here");
	open_chan(0);
	for (uintptr_t i = 0; i < 4; i++)
		t[i] = spawn(hammers, (void *)i);
	while (load(&homes) < 10)
		usleep(100);
	if (!refuse_call(SYS_membarrier))
		SKIP("no seccomp");
	errno = 77;
	bias_heavy_fence();
	CHECK_EQ(errno, 77);
	CHECK(!load(&bias_membarrier));
	usleep(20000); /* they hammer on */
	store(&stop, 1);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	CHECK_EQ(uthread_chan_destroy(c), 0);
}

/* ---- one end ---- */

#define RACES SCALE(2000)

static uthread_sem_t begin;
static uint64_t got; /* by the receiver; 0: it was cancelled */

static void *receives(void *arg)
{
	uint64_t v = 0;

	uthread_sem_post(&begin);
	CHECK_EQ(uthread_chan_recv(c, &v), 0);
	store(&got, v);
	return arg;
}

static void *sends(void *arg)
{
	uint64_t v = 5;
	int err;

	/* Without a receiver that waits it says EAGAIN. */
	do {
		err = uthread_chan_trysend(c, &v);
		if (err == EAGAIN)
			uthread_yield();
	} while (err == EAGAIN && !load(&stop));
	return err ? NULL : arg;
}

static void race_once(int i)
{
	uthread_t r, s;
	void *sent;

	store(&got, 0);
	store(&stop, 0);
	r = spawn(receives, NULL);
	CHECK_EQ(uthread_sem_wait(&begin), 0);
	s = spawn(sends, &got);
	for (int k = 0; k < i % 7; k++)
		uthread_yield();
	CHECK_EQ(uthread_cancel(r), 0);
	joined(r);
	store(&stop, 1);
	sent = joined(s);
	/* What was sent was received, or the receiver ended and nothing was sent. */
	CHECK_EQ(load(&got), sent ? 5 : 0);
	CHECK_EQ(uthread_chan_count(c), 0);
	CHECK(!c->receivers.head);
}

static void *races(void *arg)
{
	CHECK_EQ(uthread_sem_init(&begin, 0), 0);
	open_chan(0);
	for (int i = 0; i < RACES; i++)
		race_once(i);
	CHECK_EQ(uthread_chan_destroy(c), 0);
	return arg;
}

TEST(a_canceller_and_a_sender_do_not_both_have_it)
{
	start_workers(2);
	in_uthread(races, NULL);
}

/* The waker is choosing: who asks waits until it has chosen. */
static struct waiter *found;

static void *waits_alone(void *arg)
{
	struct waiter w;

	REGION;
	waiter_init(&w);
	waiter_cancellable(&w);
	waiter_lone(&w);
	uthread_become(w.ut, UT_WAITING);
	store_relaxed(&w.choosing, 1); /* and has not looked yet */
	store(&found, &w);
	CHECK_EQ(waiter_wait(&w, NO_DEADLINE), 0);
	return arg;
}

static void *cancels(void *arg)
{
	store(&homes, 1);
	CHECK_EQ(uthread_cancel(*(uthread_t *)arg), 0);
	return NULL;
}

TEST(who_asks_lets_a_waker_choose_first)
{
	uthread_t t;
	pthread_t p;

	start_workers(1);
	t = spawn(waits_alone, NULL);
	while (!load(&found) || load(&t->state) != UT_WAITING ||
	       load(&t->ctx.busy))
		usleep(100);
	CHECK(!pthread_create(&p, NULL, cancels, &t));
	while (!(load(&t->flags) & UT_ASK_LOOKS))
		usleep(100);
	usleep(20000); /* it may not have come to look: then this shows less */
	CHECK_EQ(load(&found->state), WAITER_WAITING);
	store(&found->state, WAITER_CHOSEN);
	CHECK(!pthread_join(p, NULL));
	region_enter();
	waiter_wake_chosen(found);
	region_leave();
	CHECK(joined(t) == NULL);
}

/* ---- in the child of a fork ---- */

static void *forks(void *arg)
{
	uint64_t v = 1;
	uthread_t t;
	int status;
	pid_t pid;

	open_chan(0);
	CHECK_EQ(uthread_sem_init(&begin, 0), 0);
	t = spawn(receives, NULL);
	CHECK_EQ(uthread_sem_wait(&begin), 0);
	while (!peek(&c->receivers.head))
		uthread_yield();
	/* At home, and somebody waits there. */
	chan_lock_away(c);
	c->home_after = 1;
	c->last = worker_current();
	chan_unlock_away(c);
	CHECK(!bias_membarrier || at_home());
	pid = fork();
	if (!pid) {
		/* Who waits is not here. */
		_exit(uthread_chan_trysend(c, &v) == EAGAIN &&
				      !c->receivers.head ?
			      0 :
			      1);
	}
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(uthread_chan_send(c, &v), 0);
	joined(t);
	CHECK_EQ(load(&got), 1);
	return arg;
}

TEST(nobody_is_at_home_in_the_child_of_a_fork)
{
	start(1);
	in_uthread(forks, NULL);
}

TEST_MAIN()
