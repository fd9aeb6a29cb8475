/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults_process.c - fork, libraries and the end of the process when what
 * the runtime asks for is refused.
 */
#include <dlfcn.h>

#include "ask.h"

/* ---- fork ---- */

static enum uthread_tick source;

static void check_child(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
}

static void *forks(void *arg)
{
	pid_t pid = fork();

	if (!pid) {
		alarm(TIME_S);
		one_of_each();
		_exit(0);
	}
	check_child(pid);
	return arg;
}

static void forking_tls(enum uthread_tls tls)
{
	struct uthread_config c = { .workers = 2, .tick_source = source };
	uthread_attr_t a;
	uthread_t t;

	if (!start(&c))
		return;
	a = attr(tls, UTHREAD_WORKER_ANY);
	if (create(&t, &a, forks, NULL))
		join(t, NULL);
	forks(NULL);
}

static void forking(void)
{
	forking_tls(UTHREAD_TLS_DEFAULT);
}

static void forking_shared(void)
{
	forking_tls(UTHREAD_TLS_SHARED);
}

TEST(fork)
{
	need_threads_in_a_child();
	every_fault(forking, 4, false);
}

TEST(fork_shared)
{
	need_threads_in_a_child();
	source = UTHREAD_TICK_MONITOR;
	every_fault(forking_shared, 4, false);
}

/* ---- libraries ---- */

static void *use_library(void *name)
{
	void *lib = dlopen(name, RTLD_NOW);
	char *(*bytes)(size_t *);
	int *(*value)(void);
	size_t n;

	CHECK(lib);
	*(void **)&value = dlsym(lib, "module_value");
	*(void **)&bytes = dlsym(lib, "module_bytes");
	CHECK(value && bytes);
	/* Without memory for the list of modules: anything, as was said. */
	CHECK(*value() == 42 || shared->f.failed);
	*value() = 7;
	memset(bytes(&n), 'x', 16);
	CHECK(!dlclose(lib));
	return name;
}

static void loading(void)
{
	struct uthread_config c = { .workers = 2, .spares = -1 };
	static char names[][16] = { "tls_static.so", "tls_much.so",
				    "tls_little.so", "tls_much.so" };
	uthread_t t, first;
	size_t i;

	if (!start(&c) || !create(&first, NULL, parked, NULL))
		return;
	for (i = 0; i < 4; i++)
		if (create(&t, NULL, use_library, names[i]))
			join(t, names[i]);
	uthread_sem_post(&go);
	join(first, NULL);
}

TEST(libraries)
{
	every_fault(loading, 4, false);
}

/* ---- rseq ---- */

/* A TLS block that says that it is registered: glibc believes that the threads it
 * creates can be, and ends the process where the kernel refuses. */
static void *is_not_registered(void *arg)
{
	const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
	const char *self = __builtin_thread_pointer();

	if (offset && !*uthread_tls_reason())
		CHECK_EQ(*(const int *)(const void *)(self + *offset + 4), -2);
	return arg;
}

static void looking_at_rseq(void)
{
	struct uthread_config c = { .workers = 1, .spares = -1 };
	uthread_t t;

	if (start(&c) && create(&t, NULL, is_not_registered, NULL))
		join(t, NULL);
}

TEST(own_tls_is_not_registered_for_rseq)
{
	every_fault(looking_at_rseq, 1, false);
}

/* ---- a library that asks for executable stacks ---- */

static int (*sum)(int n, int each);

static void *use_sum(void *arg)
{
	/* Refused: said, and better not called. */
	CHECK_EQ(shared->f.failed ? 3 : sum(3, 0), 3);
	return arg;
}

static void nested(const char *guard)
{
	struct uthread_config c = { .workers = 2, .spares = -1 };
	coroutine_scheduler_t *s;
	uthread_t t, first;
	void *lib;

	setenv("UTHREAD_GUARD", guard, 1);
	if (coroutine_scheduler_init(&s, NULL))
		return;
	coroutine_create(s, NULL, NULL, co_fn, &c.pin);
	if (!start(&c) || !create(&first, NULL, parked, NULL))
		return;
	lib = dlopen("nested_module.so", RTLD_NOW);
	if (lib) { /* else glibc 2.41 */
		*(void **)&sum = dlsym(lib, "nested_sum");
		CHECK(sum);
		if (create(&t, NULL, use_sum, NULL))
			join(t, NULL);
	}
	uthread_sem_post(&go);
	join(first, NULL);
	CHECK_EQ(coroutine_run(s), 0);
	CHECK_EQ(coroutine_scheduler_destroy(s), 0);
}

static void nested_madvise(void)
{
	nested("auto");
}

static void nested_mprotect(void)
{
	nested("mprotect");
}

TEST(executable_stacks)
{
	every_fault(nested_madvise, 1, false);
}

TEST(executable_stacks_mprotect)
{
	every_fault(nested_mprotect, 1, false);
}

/* ---- what libc's functions do for uthreads, and the end ---- */

static void *as_pthread(void *arg)
{
	pthread_attr_t a;
	pthread_key_t k;
	int err;

	CHECK(!pthread_getattr_np(pthread_self(), &a));
	pthread_attr_destroy(&a);
	err = pthread_key_create(&k, free);
	CHECK(!err || err == EAGAIN);
	if (!err)
		CHECK(!pthread_setspecific(k, malloc(10)));
	pthread_exit(arg);
}

/* exit() with others still at it. */
static void ending(void)
{
	struct uthread_config c = { .workers = 2, .tick_ns = TICK };
	uthread_t t[4], u;
	int i;

	if (!start(&c))
		return;
	if (create(&u, NULL, as_pthread, &c))
		join(u, &c);
	for (i = 0; i < 4; i++)
		if (!create(&t[i], NULL, i & 1 && TICK ? busy : parked, NULL))
			break;
	shared->held = faults_held();
	store(&shared->done, 1);
	exit(0);
}

TEST(end)
{
	every_fault(ending, 4, false);
}

TEST_MAIN()
