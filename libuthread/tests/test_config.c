/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_config.c - uthread_init() and the environment: what is used, what is
 * refused, and that nonsense is said in exactly one line.
 */
#include <sched.h>

#include "util.h"

static int nlines(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

static char text[4096];

/* Start the runtime and keep what it says in `text`. */
static void start_quoted(void)
{
	int saved = dup(2), fd = memfd_create("stderr", MFD_CLOEXEC);
	ssize_t n;

	CHECK(saved >= 0 && fd >= 0);
	dup2(fd, 2);
	uthread_workers();
	dup2(saved, 2);
	n = pread(fd, text, sizeof(text) - 1, 0);
	CHECK(n >= 0);
	text[n] = 0;
	fputs(text, stderr);
}

static void check_quiet(const char *name, const char *value)
{
	setenv(name, value, 1);
	start_quoted();
	CHECK_EQ(nlines(text), 0);
}

static void check_one_line(const char *name, const char *value)
{
	char start[128];

	setenv(name, value, 1);
	start_quoted();
	CHECK_EQ(nlines(text), 1);
	snprintf(start, sizeof(start), "uthread: %s=%s: ", name, value);
	CHECK(!strncmp(text, start, strlen(start)));
}

static int allowed(void)
{
	cpu_set_t set;

	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	return CPU_COUNT(&set);
}

static size_t default_stack(void)
{
	uthread_attr_t a;
	size_t bytes;

	uthread_attr_init(&a);
	CHECK_EQ(uthread_attr_getstacksize(&a, &bytes), 0);
	return bytes;
}

static void *mode_of_self(void *arg)
{
	enum uthread_tls mode;

	(void)arg;
	CHECK_EQ(uthread_gettls(uthread_self(), &mode), 0);
	return (void *)(uintptr_t)mode;
}

static void *stack_of_self(void *arg)
{
	size_t bytes;
	void *low;

	(void)arg;
	CHECK_EQ(uthread_getstack(uthread_self(), &low, &bytes), 0);
	return (void *)(uintptr_t)bytes;
}

/* ---- what is said ---- */

/* One line, whatever is in it; and why, however long it is. */
TEST(nonsense_is_said_in_one_line)
{
	char value[1000] = "a\nb\tc\033[2J\177d\n";
	const char *start =
		"uthread: UTHREAD_WORKERS=a\\nb\\tc\\x1b[2J\\x7fd\\n";

	memset(value + strlen(value), 'e', sizeof(value) - strlen(value) - 1);
	setenv("UTHREAD_WORKERS", value, 1);
	start_quoted();
	CHECK_EQ(nlines(text), 1);
	CHECK(!strncmp(text, start, strlen(start)));
	CHECK(strstr(text, "eee: not a number from 1 to "));
}

/* ---- UTHREAD_WORKERS ---- */

TEST(workers_default_is_the_cpus_allowed)
{
	unsetenv("UTHREAD_WORKERS");
	start_quoted();
	CHECK_EQ(nlines(text), 0);
	CHECK_EQ(uthread_workers(), allowed());
}

TEST(workers_default_follows_the_affinity)
{
	cpu_set_t set;
	int cpu = 0;

	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(!sched_setaffinity(0, sizeof(set), &set));
	CHECK_EQ(uthread_workers(), 1);
}

TEST(workers_from_the_environment)
{
	check_quiet("UTHREAD_WORKERS", "3");
	CHECK_EQ(uthread_workers(), 3);
	for (int i = 0; i < 3; i++)
		CHECK(uthread_worker_tid(i) > 0);
}

TEST(workers_can_be_a_thousand_and_twenty_four)
{
	if (TEST_EMULATED || TEST_ASAN)
		SKIP("so many kernel threads take too long here");
	check_quiet("UTHREAD_WORKERS", "1024");
	CHECK_EQ(uthread_workers(), 1024);
	CHECK_EQ((uintptr_t)joined(spawn_on(1023, mode_of_self, NULL)) > 0, 1);
}

#define TEST_BAD_WORKERS(n, value)                        \
	TEST(workers_##n##_is_one_line_and_the_default)   \
	{                                                 \
		check_one_line("UTHREAD_WORKERS", value); \
		CHECK_EQ(uthread_workers(), allowed());   \
	}
TEST_BAD_WORKERS(zero, "0")
TEST_BAD_WORKERS(negative, "-1")
TEST_BAD_WORKERS(too_many, "1025")
TEST_BAD_WORKERS(beyond_64_bits, "99999999999999999999")
TEST_BAD_WORKERS(empty, "")
TEST_BAD_WORKERS(text, "many")
TEST_BAD_WORKERS(with_a_suffix, "2K")
TEST_BAD_WORKERS(with_a_space, " 2")

/* ---- UTHREAD_STACK_SIZE ---- */

#define TEST_STACK(n, value, bytes)                                           \
	TEST(stack_size_##n##_from_the_environment)                           \
	{                                                                     \
		check_quiet("UTHREAD_STACK_SIZE", value);                     \
		CHECK(default_stack() >= (bytes));                            \
		CHECK((uintptr_t)in_uthread(stack_of_self, NULL) >= (bytes)); \
		CHECK(default_stack() < 4 * (bytes) + 65536);                 \
	}
TEST_STACK(least, "16384", 16384u)
TEST_STACK(K, "64K", 64u << 10)
TEST_STACK(small_k, "100k", 100u << 10)
TEST_STACK(M, "1M", 1u << 20)
TEST_STACK(G, "1G", 1ul << 30)

#define TEST_BAD_STACK(n, value)                             \
	TEST(stack_size_##n##_is_one_line_and_the_default)   \
	{                                                    \
		size_t usual = default_stack();              \
		check_one_line("UTHREAD_STACK_SIZE", value); \
		CHECK_EQ(default_stack(), usual);            \
		in_uthread(stack_of_self, NULL);             \
	}
TEST_BAD_STACK(too_small, "16383")
TEST_BAD_STACK(too_large, "2G")
TEST_BAD_STACK(empty, "")
TEST_BAD_STACK(negative, "-1")
TEST_BAD_STACK(unknown_suffix, "64X")
TEST_BAD_STACK(text_behind, "64KB")
TEST_BAD_STACK(overflowing_suffix, "99999999999999999G")

/* ---- UTHREAD_TLS, UTHREAD_GUARD, UTHREAD_PIN ---- */

TEST(tls_shared_from_the_environment)
{
	check_quiet("UTHREAD_TLS", "shared");
	CHECK_EQ((uintptr_t)in_uthread(mode_of_self, NULL), UTHREAD_TLS_SHARED);
}

TEST(tls_own_from_the_environment_or_one_line)
{
	setenv("UTHREAD_TLS", "own", 1);
	start_quoted();
	CHECK_EQ(nlines(text), *uthread_tls_reason() != 0);
	CHECK_EQ((uintptr_t)in_uthread(mode_of_self, NULL),
		 *uthread_tls_reason() ? UTHREAD_TLS_SHARED : UTHREAD_TLS_OWN);
}

TEST(tls_nonsense_is_one_line_and_the_default)
{
	check_one_line("UTHREAD_TLS", "mine");
	CHECK_EQ((uintptr_t)in_uthread(mode_of_self, NULL),
		 *uthread_tls_reason() ? UTHREAD_TLS_SHARED : UTHREAD_TLS_OWN);
}

TEST(guard_nonsense_is_one_line_and_the_default)
{
	check_one_line("UTHREAD_GUARD", "none");
	in_uthread(stack_of_self, NULL);
}

TEST(guard_from_the_environment)
{
	struct uthread_stats st;

	check_quiet("UTHREAD_GUARD", "mprotect");
	CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	CHECK_EQ(st.guard, 2);
}

static void *cpu_here(void *arg)
{
	cpu_set_t set;

	(void)arg;
	/* 0: the calling kernel thread, which is the worker */
	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	CHECK_EQ(CPU_COUNT(&set), 1);
	for (intptr_t cpu = 0;; cpu++)
		if (CPU_ISSET((size_t)cpu, &set))
			return (void *)cpu;
}

TEST(pin_puts_worker_i_on_the_ith_allowed_cpu)
{
	cpu_set_t set;
	int cpu = -1;

	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	check_quiet("UTHREAD_PIN", "1");
	for (int i = 0; i < uthread_workers(); i++) {
		do
			cpu++;
		while (!CPU_ISSET(cpu, &set));
		CHECK_EQ((intptr_t)joined(spawn_on(i, cpu_here, NULL)), cpu);
	}
}

TEST(pin_nonsense_is_one_line_and_the_default)
{
	check_one_line("UTHREAD_PIN", "yes");
	in_uthread(stack_of_self, NULL);
}

TEST(every_nonsense_is_said)
{
	setenv("UTHREAD_WORKERS", "x", 1);
	setenv("UTHREAD_STACK_SIZE", "x", 1);
	setenv("UTHREAD_TLS", "x", 1);
	setenv("UTHREAD_PIN", "x", 1);
	setenv("UTHREAD_GUARD", "x", 1);
	start_quoted();
	CHECK_EQ(nlines(text), 5);
}

/* ---- uthread_init ---- */

static struct uthread_config config(void)
{
	struct uthread_config c;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	return c;
}

TEST(init_refuses_bad_values_and_can_be_called_again)
{
	struct uthread_config bad[] = {
		config(), config(), config(), config(), config(), config(),
		config(), config(), config(), config(), config(),
	};
	int cpu = 0, no_cpu[] = { 0, -1 };

	bad[0].size = 8;
	bad[1].workers = -1;
	bad[2].workers = 1025;
	bad[3].pin = 2;
	bad[4].stack_size = UTHREAD_STACK_MIN - 1;
	bad[5].stack_size = (1ul << 30) + 1;
	bad[6].tls = (enum uthread_tls)3;
	bad[7].ncpus = 1; /* and no cpus */
	bad[8].ncpus = -1;
	bad[8].cpus = &cpu;
	bad[9].pin = -1;
	bad[10].ncpus = 2;
	bad[10].cpus = no_cpu;
	for (int i = 0; i < 11; i++)
		CHECK_EQ(uthread_init(&bad[i]), EINVAL);
	CHECK_EQ(uthread_init(NULL), 0);
}

/* A later version's; all that we do not know is at its end. */
struct later {
	struct uthread_config known;
	uint64_t more[4];
};

TEST(init_takes_a_larger_struct_if_the_rest_is_zero)
{
	struct later l = { .known = { .size = sizeof(l), .workers = 2 } };

	l.more[3] = 1ull << 63;
	CHECK_EQ(uthread_init(&l.known), E2BIG);
	l.more[3] = 0;
	l.known.size = (size_t)1 << 40;
	CHECK_EQ(uthread_init(&l.known), E2BIG);
	l.known.size = sizeof(l);
	CHECK_EQ(uthread_init(&l.known), 0);
	CHECK_EQ(uthread_workers(), 2);
}

TEST(init_takes_the_struct_of_the_first_version)
{
	struct first { /* as it was */
		size_t size;
		int workers, pin;
		const int *cpus;
		int ncpus;
		size_t stack_size;
		enum uthread_tls tls;
	} *c = calloc(1, sizeof(*c)); /* a read behind it is ASan's to find */

	c->size = sizeof(*c) - 1;
	CHECK_EQ(uthread_init((struct uthread_config *)c), EINVAL);
	c->size = sizeof(*c);
	c->workers = 3;
	CHECK_EQ(uthread_init((struct uthread_config *)c), 0);
	CHECK_EQ(uthread_workers(), 3);
	free(c);
}

TEST(init_is_EBUSY_once_the_workers_run)
{
	struct uthread_config c = config();

	CHECK_EQ(uthread_init(NULL), 0);
	CHECK_EQ(uthread_init(NULL), EBUSY);
	CHECK_EQ(uthread_init(&c), EBUSY);
}

TEST(init_is_EBUSY_after_a_create)
{
	in_uthread(stack_of_self, NULL);
	CHECK_EQ(uthread_init(NULL), EBUSY);
}

TEST(init_wins_over_the_environment)
{
	struct uthread_config c = config();

	setenv("UTHREAD_WORKERS", "1", 1);
	setenv("UTHREAD_STACK_SIZE", "64K", 1);
	setenv("UTHREAD_TLS", "own", 1);
	c.workers = 2;
	c.stack_size = 1u << 20;
	c.tls = UTHREAD_TLS_SHARED;
	CHECK_EQ(uthread_init(&c), 0);
	CHECK_EQ(uthread_workers(), 2);
	CHECK((uintptr_t)in_uthread(stack_of_self, NULL) >= 1u << 20);
	CHECK_EQ((uintptr_t)in_uthread(mode_of_self, NULL), UTHREAD_TLS_SHARED);
}

TEST(init_zero_fields_mean_the_environment)
{
	struct uthread_config c = config();

	setenv("UTHREAD_WORKERS", "3", 1);
	CHECK_EQ(uthread_init(&c), 0);
	CHECK_EQ(uthread_workers(), 3);
}

TEST(init_pins_to_the_cpus_given)
{
	struct uthread_config c = config();
	cpu_set_t set;
	int cpu = 0;

	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	c.workers = 3;
	c.pin = 1;
	c.cpus = &cpu;
	c.ncpus = 1;
	CHECK_EQ(uthread_init(&c), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ((intptr_t)joined(spawn_on(i, cpu_here, NULL)), cpu);
}

TEST(cpu_that_is_not_to_be_had_is_one_line_and_the_worker_runs)
{
	struct uthread_config c = config();
	int cpu = 8000, saved = dup(2), p[2];
	ssize_t n;

	c.workers = 1;
	c.pin = 1;
	c.cpus = &cpu;
	c.ncpus = 1;
	CHECK(!pipe(p));
	dup2(p[1], 2);
	CHECK_EQ(uthread_init(&c), 0);
	dup2(saved, 2);
	n = read(p[0], text, sizeof(text) - 1);
	CHECK(n > 0);
	text[n] = 0;
	CHECK_EQ(nlines(text), 1);
	CHECK(strstr(text, "CPU 8000"));
	in_uthread(stack_of_self, NULL);
}

TEST_MAIN()
