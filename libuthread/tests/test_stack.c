/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks: whose overflow it was, with either kind of guard; never one without
 * a guard; what a deep call committed is given back; workers do not hoard.
 */
#include <alloca.h>
#include <sys/mman.h>

#include "util.h"

/* ---- overflow ---- */

/* Frames smaller than the guard, so that none jumps over it. */
static __attribute__((noinline)) int recurse(int n)
{
	volatile char frame[512];

	frame[0] = (char)n;
	return n < 0 ? 0 : recurse(n + 1) + frame[0];
}

static void *overflows(void *arg)
{
	*(int *)arg = recurse(0);
	return arg;
}

static void *quiet(void *arg)
{
	for (;;)
		uthread_sleep(10 * MS);
	return arg;
}

static void overflow(const char *guard, enum uthread_tls mode)
{
	static int sink;
	uthread_attr_t a;

	setenv("UTHREAD_GUARD", guard, 1);
	start_workers(2);
	for (int i = 0; i < 10; i++)
		spawn(quiet, NULL);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_settls(&a, mode), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, 100 << 10), 0);
	CHECK_EQ(uthread_attr_setname(&a, "digger"), 0);
	joined(spawn_attr(&a, overflows, &sink));
}

#if TEST_ASAN
#define OVERFLOW_SIGNAL SIGABRT
#define OVERFLOW_TEXT "stack-overflow"
#else
#define OVERFLOW_SIGNAL SIGSEGV
#define OVERFLOW_TEXT "stack overflow in uthread 'digger'"
#endif

TEST_DIES(overflow_is_named, OVERFLOW_SIGNAL, OVERFLOW_TEXT)
{
	overflow("auto", UTHREAD_TLS_DEFAULT);
}

TEST_DIES(overflow_is_named_mprotect, OVERFLOW_SIGNAL, OVERFLOW_TEXT)
{
	overflow("mprotect", UTHREAD_TLS_DEFAULT);
}

TEST_DIES(overflow_is_named_shared, OVERFLOW_SIGNAL, OVERFLOW_TEXT)
{
	overflow("auto", UTHREAD_TLS_SHARED);
}

TEST_DIES(overflow_says_the_remedy, OVERFLOW_SIGNAL,
	  TEST_ASAN ? OVERFLOW_TEXT : "uthread_attr_setstacksize()")
{
	overflow("auto", UTHREAD_TLS_DEFAULT);
}

/* A fault that is nobody's stack is the program's own affair. */
static void on_segv(int sig)
{
	static const char text[] = "the program's own handler\n";

	(void)sig;
	_exit(write(2, text, sizeof(text) - 1) > 0 ? 3 : 4);
}

static void *faults(void *arg)
{
	char *p =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	*(volatile char *)p = 1;
	return arg;
}

TEST_DIES(other_faults_reach_the_handler_that_was_there, 0,
	  "the program's own handler")
{
	signal(SIGSEGV, on_segv);
	in_uthread(faults, NULL);
}

TEST_DIES(other_faults_without_a_handler_end_the_process, SIGSEGV, "")
{
	if (TEST_ASAN)
		signal(SIGSEGV, SIG_DFL); /* not ASan's report */
	in_uthread(faults, NULL);
}

/* ---- guards ---- */

struct bounds {
	uintptr_t low;
	size_t bytes;
};

static void *bounds_of_self(void *arg)
{
	struct bounds *b = arg;
	void *low;

	CHECK_EQ(uthread_getstack(uthread_self(), &low, &b->bytes), 0);
	b->low = (uintptr_t)low;
	return arg;
}

/* Can the page below the stack be read? The kernel says so by EFAULT. */
static void *page_below_faults(void *arg)
{
	struct bounds b;
	int p[2];

	bounds_of_self(&b);
	CHECK(!pipe(p));
	CHECK_EQ(write(p[1], (char *)b.low, 1), 1);
	CHECK_EQ(write(p[1], (char *)b.low - 1, 1), -1);
	CHECK_EQ(errno, EFAULT);
	CHECK_EQ(write(p[1], (char *)b.low - 4096, 1), -1);
	close(p[0]);
	close(p[1]);
	return arg;
}

static void every_stack_is_guarded(const char *guard)
{
	uthread_attr_t a;

	setenv("UTHREAD_GUARD", guard, 1);
	start_workers(1);
	CHECK_EQ(uthread_attr_init(&a), 0);
	for (size_t kib = 16; kib <= 4096; kib *= 2) {
		CHECK_EQ(uthread_attr_setstacksize(&a, kib << 10), 0);
		for (int i = 0; i < 3; i++)
			joined(spawn_attr(&a, page_below_faults, NULL));
		CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
		joined(spawn_attr(&a, page_below_faults, NULL));
		CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_DEFAULT), 0);
	}
}

TEST(every_stack_is_guarded_auto)
{
	every_stack_is_guarded("auto");
}

TEST(every_stack_is_guarded_mprotect)
{
	every_stack_is_guarded("mprotect");
}

static void *at_gate(void *arg)
{
	uthread_sem_wait(arg);
	return NULL;
}

/* Without MADV_GUARD_INSTALL a guard costs mappings, of which there are few;
 * the last ones are the program's. */
TEST(no_guard_left_is_EAGAIN_and_leaves_mappings_to_the_program)
{
	static uthread_sem_t gate = UTHREAD_SEM_INITIALIZER(0);
	static uthread_t t[200000];
	struct uthread_stats st;
	uthread_attr_t a;
	int n = 0, err;

	if (TEST_ASAN || TEST_EMULATED)
		SKIP("too slow, and other limits come first");
	setenv("UTHREAD_GUARD", "mprotect", 1);
	start_workers(1);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, UTHREAD_STACK_MIN), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	while (n < 200000 && !(err = uthread_create(&t[n], &a, at_gate, &gate)))
		n++;
	uthread_stats(&st, sizeof(st));
	CHECK_EQ(st.guard, 2);
	if (n == 200000)
		SKIP("vm.max_map_count is very large here");
	CHECK_EQ(err, EAGAIN);
	for (int i = 0; i < 100; i++) {
		void *p = mmap(NULL, 8192, i & 1 ? PROT_READ : PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(p != MAP_FAILED);
		CHECK(!mprotect(p, 4096, PROT_READ | PROT_WRITE));
	}
	for (int i = 0; i < n; i++)
		uthread_sem_post(&gate);
	for (int i = 0; i < n; i++)
		joined(t[i]);
	joined(spawn_attr(&a, bounds_of_self, &(struct bounds){ 0 }));
}

/* As multipathd does, when it has threads already. */
TEST(what_is_locked_has_stacks_and_guards)
{
	enum { ROOM = 64 << 20 };
	uthread_attr_t a;
	void *room;

	start_workers(1);
	joined(spawn(page_below_faults, NULL));
	if (mlockall(MCL_FUTURE | MCL_ONFAULT))
		SKIP("no memory may be locked");
	room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		SKIP("not enough memory may be locked");
	CHECK(!munmap(room, ROOM));
	CHECK_EQ(uthread_attr_init(&a), 0);
	for (size_t bytes = 64 << 10; bytes <= 8 << 20; bytes *= 4) {
		CHECK_EQ(uthread_attr_setstacksize(&a, bytes), 0);
		for (int i = 0; i < 3; i++)
			joined(spawn_attr(&a, page_below_faults, NULL));
	}
}

/* ---- giving memory back ---- */

#define DEEP (512u << 10)

static void *goes_deep(void *arg)
{
	struct bounds *b = arg;
	volatile char *p = alloca(DEEP);

	for (size_t i = 0; i < DEEP; i += 4096)
		p[i] = 1;
	bounds_of_self(b);
	return arg;
}

static size_t resident(const struct bounds *b)
{
	static unsigned char vec[1 << 16];
	size_t pages = b->bytes / 4096, n = 0;

	CHECK(!mincore((void *)b->low, pages * 4096, vec));
	for (size_t i = 0; i < pages; i++)
		n += vec[i] & 1;
	return n * 4096;
}

enum { DEEP_ONES = 1000 };

static struct bounds deep_ones[DEEP_ONES];

/* More than a worker's own pool takes: the rest is for all. */
static void many_go_deep(void)
{
	static uthread_t t[DEEP_ONES];
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, 1 << 20), 0);
	for (int i = 0; i < DEEP_ONES; i++)
		t[i] = spawn_attr(&a, goes_deep, &deep_ones[i]);
	for (int i = 0; i < DEEP_ONES; i++)
		joined(t[i]);
}

static bool they_are_trimmed(void)
{
	size_t most = 0, kept = 0;

	for (int i = 0; i < DEEP_ONES; i++) {
		size_t r = resident(&deep_ones[i]);

		kept += r >= DEEP;
		most += r;
	}
	return kept <= 300 && /* a worker's pool: 256 */
	       most < (size_t)DEEP_ONES * DEEP / 2;
}

/* Who created them sleeps meanwhile, and there is nothing else to do. */
TEST(what_deep_calls_committed_is_given_back)
{
	if (TEST_ASAN || TEST_EMULATED)
		SKIP("its locals may lie elsewhere; mincore() is the host's");
	start_workers(1);
	if (!stats().tick_ns)
		SKIP("see the next one");
	for (int round = 0; round < 2; round++) {
		many_go_deep();
		while (!they_are_trimmed())
			usleep(10000);
	}
}

/* There is no thread that would do it later. */
TEST(what_deep_calls_committed_is_given_back_without_ticks)
{
	if (TEST_ASAN || TEST_EMULATED)
		SKIP("its locals may lie elsewhere; mincore() is the host's");
	CHECK(!setenv("UTHREAD_TICK", "off", 1));
	start_workers(1);
	many_go_deep();
	CHECK(they_are_trimmed());
}

enum { FEW = 100 };

static void few_go_deep(void)
{
	uthread_t t[FEW];
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, 1 << 20), 0);
	for (int i = 0; i < FEW; i++)
		t[i] = spawn_attr(&a, goes_deep, &deep_ones[i]);
	for (int i = 0; i < FEW; i++)
		joined(t[i]);
}

static size_t still_deep(void)
{
	size_t n = 0;

	for (int i = 0; i < FEW; i++)
		n += resident(&deep_ones[i]) >= DEEP;
	return n;
}

/* A worker's own pool takes them all, so nobody else can trim them. */
TEST(an_idle_worker_keeps_no_deep_stacks)
{
	if (TEST_ASAN || TEST_EMULATED)
		SKIP("its locals may lie elsewhere; mincore() is the host's");
	start_workers(2);
	if (!stats().tick_ns)
		SKIP("nobody would trim them later");
	for (int round = 0; round < 2; round++) {
		few_go_deep();
		CHECK(still_deep());
		while (still_deep())
			uthread_sleep(10000000);
	}
}

static void *parks_deep(void *arg)
{
	volatile char *p = alloca(DEEP);

	for (size_t i = 0; i < DEEP; i += 4096)
		p[i] = 1;
	bounds_of_self(arg);
	uthread_yield();
	return (void *)(uintptr_t)p[0];
}

static void *parks_and_joins(void *arg)
{
	enum { N = 200 };
	static struct bounds b[N];
	static uthread_t t[N];
	size_t kept = 0;
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, 1 << 20), 0);
	for (int i = 0; i < N; i++)
		t[i] = spawn_attr(&a, parks_deep, &b[i]);
	for (int i = 0; i < N; i++)
		CHECK_EQ(uthread_join(t[i], NULL), 0);
	for (int i = 0; i < N; i++)
		kept += resident(&b[i]) >= DEEP;
	CHECK(kept >= 1); /* for the next ones */
	CHECK(kept <= 50);
	return arg;
}

/* Fewer than a worker's pool takes, of a server whose requests wait in a frame
 * with a large buffer. */
TEST(few_stay_as_deep_as_they_waited)
{
	if (TEST_ASAN || TEST_EMULATED)
		SKIP("its locals may lie elsewhere; mincore() is the host's");
	start_workers(1);
	in_uthread(parks_and_joins, NULL);
}

/* ---- stacks that wander ---- */

#define AT_ONCE 60

static uthread_sem_t gate = UTHREAD_SEM_INITIALIZER(0);

static void *waits_at_the_gate(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&gate), 0);
	return arg;
}

static struct uthread_stats stats_now(void)
{
	struct uthread_stats st;

	CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	return st;
}

/* They end on the other worker, which gets every stack that is made here. */
static void *creates_for_the_other(void *arg)
{
	const struct uthread_stats before = stats_now();
	uint64_t stacks;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < AT_ONCE; i++)
			CHECK(!uthread_detach(
				spawn_on(1, waits_at_the_gate, NULL)));
		for (int i = 0; i < AT_ONCE; i++)
			CHECK_EQ(uthread_sem_post(&gate), 0);
		while (stats_now().live > before.live)
			uthread_sleep(MS);
	}
	stacks = stats_now().stacks - before.stacks;
	fprintf(stderr, "%d at once, %llu stacks\n", AT_ONCE,
		(unsigned long long)stacks);
	/* Twice as many, and some; if the other one kept what a worker may: 300. */
	CHECK(stacks <= 3 * AT_ONCE);
	return arg;
}

TEST(stacks_come_back_to_the_worker_that_creates)
{
	start_workers(2);
	joined(spawn_on(0, creates_for_the_other, NULL));
}

TEST_MAIN()
