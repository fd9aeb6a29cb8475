/* SPDX-License-Identifier: Apache-2.0 */
/* soak.c - the driver of storms; what it does is said in soak.h. */
#include "soak.h"

#include "base/region.h"

#include <execinfo.h>
#include <inttypes.h>
#include <sys/time.h>

#define SLOTS_MAX 2048
#define ENOUGH_PREEMPTED 100
#define ENOUGH_MOVED 10
#define MUCH_LONGER 10 /* times as asked, for enough to happen */
#define PATIENCE_S (TEST_EMULATED ? 600 : 120)

/* A chain of uthreads, each the successor of the one before. */
struct slot {
	struct storm *storm;
	uint64_t rng;
	uint32_t number;
	uthread_t last;
	uthread_sem_t done;
	/* Written by who lives; read by main, relaxed. */
	uint32_t lives;
	uint64_t rounds, moved;
} __attribute__((aligned(64)));

struct life {
	struct soak s;
	struct slot *slot;
	uthread_t before; /* to be joined; NULL: it was detached */
};

static const char *name = "mixed"; /* of the storm */
static uint64_t seed;

static struct storm *storms;
static struct slot slots[SLOTS_MAX];
static unsigned nslots;
static int stopping, some_shared, resizes;

void soak_add(struct storm *storm)
{
	storm->next = storms;
	storms = storm;
}

int soak_stopping(void)
{
	return __atomic_load_n(&stopping, __ATOMIC_RELAXED);
}

void soak_spin(unsigned n)
{
	while (n--)
		__asm__ volatile("" : : : "memory");
}

/* ---- failing ---- */

/*
 * Nothing is known about who comes here: it may have crashed in the runtime, in
 * the child of a fork, or with locks of malloc or of the loader. So what it calls
 * is the kernel: signal(), raise(), write() and sleep() are the runtime's here,
 * and would wait for what the crash has left behind. What does take locks of
 * libc's, the backtrace, comes last, and an alarm ends the process if that waits.
 */
#define LAST_WORDS_S 10

static void by_default(int sig)
{
	const uint64_t none[4] = { 0 }; /* the kernel's sigaction: SIG_DFL */
	uint64_t set = 1ull << (sig - 1);

	syscall(SYS_rt_sigaction, sig, none, NULL, sizeof(set));
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, sizeof(set));
}

static void end_by(int sig) __attribute__((noreturn));
static void end_by(int sig)
{
	by_default(sig);
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
	for (;;)
		syscall(SYS_exit_group, 1);
}

static void put(const char *s, size_t n)
{
	if (syscall(SYS_write, 2, s, n) < 0)
		syscall(SYS_exit_group, 1);
}

static void say(const char *why, int sig)
{
	static int said; /* the process that has; one forked off begins anew */
	const struct itimerval last = { .it_value.tv_sec = LAST_WORDS_S };
	const struct timespec longer = { .tv_sec = 2 * LAST_WORDS_S };
	void *calls[64];
	char line[160];
	int n;

	by_default(SIGALRM);
	syscall(SYS_setitimer, ITIMER_REAL, &last, NULL);
	if (__atomic_exchange_n(&said, getpid(), __ATOMIC_SEQ_CST) ==
	    getpid()) {
		/* Who was first says it all, if it can. */
		syscall(SYS_nanosleep, &longer, NULL);
		return;
	}
	n = snprintf(line, sizeof(line),
		     "soak %s: %s %d; seed %" PRIu64 "; what everybody does:\n",
		     name, why, sig, seed);
	put(line, (size_t)n);
	uthread_dump(2);
	n = snprintf(line, sizeof(line), "soak %s: called by:\n", name);
	put(line, (size_t)n);
	n = backtrace(calls, (int)(sizeof(calls) / sizeof(calls[0])));
	backtrace_symbols_fd(calls, n, 2);
}

void soak_failed(void)
{
	say("a check failed in process", getpid());
	for (;;)
		syscall(SYS_exit_group, 1);
}

static void on_end(int sig)
{
	say("signal", sig);
	end_by(sig);
}

static void say_at_the_end(void)
{
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGILL,
				       SIGFPE };
	struct sigaction sa = { .sa_handler = on_end,
				.sa_flags = SA_ONSTACK | SA_NODEFER };
	void *calls[2];
	size_t i;

	backtrace(calls, 2); /* loads what it needs: now, not then */
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		CHECK(!sigaction(signals[i], &sa, NULL));
}

/* SOAK_CRASH: in the runtime, where nobody can take this worker's place; 2: in the
 * child of a fork, for which its parent waits. */
static void *crashes(void *how)
{
	int in_child = how != NULL, status;
	pid_t pid = in_child ? fork() : 0;

	if (!pid) {
#ifdef SOAK_STATIC
		region_enter();
#endif
		__builtin_trap();
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	return NULL;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);
	char *end;
	uint64_t n;

	if (!s || !*s)
		return otherwise;
	n = strtoull(s, &end, 10);
	if (*end) {
		fprintf(stderr, "%s=%s: not a number\n", name, s);
		exit(2);
	}
	return n;
}

/* ---- lives ---- */

/* main has made the first of each slot. Before, it would wait for malloc's lock
 * beside all who are at it already: that lock is not fair, and on a busy
 * machine a pthread that is woken for it comes too late again and again. */
static int all_there;

static void *live(void *arg);

static void successor(struct slot *slot, uthread_t before)
{
	struct life *l = (struct life *)calloc(1, sizeof(*l));
	const struct storm *st = slot->storm;
	uthread_attr_t a;
	uint64_t r = test_random(&slot->rng);
	uthread_t t;

	int err;

	CHECK(l);
	l->slot = slot;
	l->before = before;
	l->s.rng = test_random(&slot->rng) | 1;
	store(&slot->lives, slot->lives + 1);
	l->s.tag = slot->number << 16 | (slot->lives & 0xffff);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setname(&a, st->name), 0);
	if (st->stack)
		CHECK_EQ(uthread_attr_setstacksize(&a, st->stack), 0);
	else if (r % 16 == 1)
		CHECK_EQ(uthread_attr_setstacksize(&a, 1 << 20), 0);
	/* Never both in one run. One with shared TLS that waits for a lock of
	 * libc's keeps its worker, and who holds it may be bound there. */
	if (some_shared && r % 8 == 3)
		CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	do {
		if (!some_shared && r % 16 == 2)
			CHECK_EQ(uthread_attr_setworker(
					 &a,
					 (int)((r >> 8) % uthread_workers())),
				 0);
		err = uthread_create(&t, &a, live, l);
	} while (resizes && err == EINVAL); /* there are fewer just now */
	CHECK_EQ(err, 0);
}

static void *live(void *arg)
{
	struct life *l = (struct life *)arg;
	struct slot *slot = l->slot;
	struct storm *st = slot->storm;
	uint64_t rng = l->s.rng ^ 0x9e3779b97f4a7c15ull;
	unsigned rounds =
		1 + test_random(&rng) % (st->rounds ? st->rounds : 32);
	int detach = test_random(&rng) % 4 == 0, at;
	void *value = NULL;

	while (!load(&all_there))
		uthread_sleep(MS);
	if (l->before) {
		CHECK_EQ(uthread_join(l->before, &value), 0);
		CHECK(value == slot);
	}
	if (st->begin)
		st->begin(&l->s);
	while (rounds-- && !soak_stopping()) {
		at = uthread_worker();
		st->round(&l->s);
		if (uthread_worker() != at)
			__atomic_store_n(&slot->moved, slot->moved + 1,
					 __ATOMIC_RELAXED);
		__atomic_store_n(&slot->rounds, slot->rounds + 1,
				 __ATOMIC_RELAXED);
	}
	if (st->end)
		st->end(&l->s);
	free(l);
	if (soak_stopping()) {
		slot->last = uthread_self();
		CHECK_EQ(uthread_sem_post(&slot->done), 0);
		return slot;
	}
	if (detach)
		CHECK_EQ(uthread_detach(uthread_self()), 0);
	successor(slot, detach ? NULL : uthread_self());
	return slot;
}

/* ---- the whole ---- */

static struct {
	uint64_t lives, rounds, moved;
	struct uthread_stats st;
} sum;

static void add_up(void)
{
	unsigned i;

	sum.lives = sum.rounds = sum.moved = 0;
	for (i = 0; i < nslots; i++) {
		sum.lives += __atomic_load_n(&slots[i].lives, __ATOMIC_RELAXED);
		sum.rounds +=
			__atomic_load_n(&slots[i].rounds, __ATOMIC_RELAXED);
		sum.moved += __atomic_load_n(&slots[i].moved, __ATOMIC_RELAXED);
	}
	CHECK_EQ(uthread_stats(&sum.st, sizeof(sum.st)), 0);
}

static void print_totals(FILE *f, double seconds)
{
	const struct uthread_stats *st = &sum.st;

	fprintf(f,
		"soak %s: %" PRIu64 " rounds by %" PRIu64
		" uthreads in %.1f s, %u workers (%u spares), %" PRIu64
		" ticks, %" PRIu64 " preempted, %" PRIu64 " moved, %" PRIu64
		" blocked, seed %" PRIu64 "\n",
		name, sum.rounds, sum.lives, seconds, st->workers, st->spares,
		st->ticks, st->preempted, sum.moved, st->blocked, seed);
	fflush(f);
}

static int enough(void)
{
	if (!sum.st.tick_ns)
		return 1;
	return sum.st.preempted >= ENOUGH_PREEMPTED &&
	       (sum.st.workers < 2 || sum.moved >= ENOUGH_MOVED);
}

/* Until time is up (or, once told to stop, `done` slots have ended); ends the
 * process when nothing goes on at all. */
static void watch(uint64_t seconds)
{
	uint64_t patience = number("SOAK_PATIENCE", PATIENCE_S), seen = 0;
	double start = harness_now(), last = start, now;
	uint64_t rng = seed * 3 | 1;
	unsigned ended = 0;

	while (ended < nslots) {
		usleep(50000);
		now = harness_now();
		if (resizes && !soak_stopping())
			CHECK_EQ(uthread_set_workers(
					 1 +
					 (int)((test_random(&rng) >> 33) % 6)),
				 0);
		add_up();
		if (now - start >= (double)seconds && enough())
			store(&stopping, 1);
		if (now - start >= (double)(MUCH_LONGER * seconds))
			store(&stopping, 1);
		while (ended < nslots && soak_stopping() &&
		       !uthread_sem_trywait(&slots[ended].done)) {
			CHECK_EQ(uthread_join(slots[ended].last, NULL), 0);
			ended++;
			last = now;
		}
		if (sum.rounds != seen) {
			seen = sum.rounds;
			last = now;
		} else if (now - last > (double)patience) {
			print_totals(stderr, now - start);
			fprintf(stderr,
				"soak %s: no round ended for %.0f s; %u of %u had ended\n",
				name, now - last, ended, nslots);
			soak_failed();
		}
	}
	add_up();
	print_totals(stdout, harness_now() - start);
}

static int wanted(const struct storm *st, int argc, char **argv)
{
	int i;

	if (TEST_TSAN && !st->shared_tls)
		return 0;
	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], st->name))
			return 1;
	return argc < 2;
}

int main(int argc, char **argv)
{
	uint64_t seconds = number("SOAK_SECONDS", 2);
	uint64_t rng;
	unsigned n = 0, i;
	struct storm *st;

	if (argc > 1 && !strcmp(argv[1], "--child") && soak_child)
		return soak_child(argc, argv);
	if (TEST_ASAN) {
		printf("soak: no preemption under AddressSanitizer\n");
		return HARNESS_SKIP;
	}
	seed = number("SOAK_SEED", test_now() % 1000000 + 1);
	resizes = number("SOAK_RESIZE", 0) != 0;
	say_at_the_end();
	setenv("UTHREAD_WORKERS", "4", 0);
	setenv("UTHREAD_TICK", "100us", 0);
	if (!TEST_TSAN) /* which has neither own TLS nor ticks */
		need_own_tls();
	for (st = storms; st; st = st->next)
		n += wanted(st, argc, argv);
	if (!n)
		SKIP("nothing here is right with shared TLS");
	some_shared = seed & 1;
	for (st = storms; st; st = st->next)
		some_shared &= st->shared_tls || !wanted(st, argc, argv);
	rng = seed * 0x9e3779b97f4a7c15ull | 1;
	for (st = storms; st; st = st->next) {
		unsigned share = (st->uthreads + n - 1) / n;

		if (!wanted(st, argc, argv))
			continue;
		if (n == 1)
			name = st->name;
		if (TEST_EMULATED)
			share = (share + 7) / 8;
		if (st->setup)
			st->setup();
		for (i = 0; i < share; i++) {
			CHECK(nslots < SLOTS_MAX);
			slots[nslots].storm = st;
			slots[nslots].number = nslots + 1;
			slots[nslots++].rng = test_random(&rng) | 1;
		}
	}
	printf("soak %s: seed %" PRIu64 "\n", name, seed);
	fflush(stdout);
	for (i = 0; i < nslots; i++)
		successor(&slots[i], NULL);
	store(&all_there, 1);
	if (number("SOAK_CRASH", 0))
		spawn(crashes, number("SOAK_CRASH", 0) > 1 ? &seed : NULL);
	watch(seconds);
	for (st = storms; st; st = st->next)
		if (wanted(st, argc, argv) && st->finish)
			st->finish();
	/* Detached ones may still be on their way out. */
	for (add_up(); sum.st.live; add_up())
		usleep(1000);
	if (!enough()) {
		printf("soak %s: too few ticks were taken to show anything\n",
		       name);
		return HARNESS_SKIP;
	}
	return 0;
}
