/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults.c - the runtime when what it asks for is refused.
 *
 * Each TEST is a program that is run again and again, in a process of its own:
 * first as it is, then with its first call failing (faults.h), its second,
 * and so on until it ends before the call that was to fail; then all that
 * again with every later call of the same kind failing too. Whatever fails,
 * it must get the error number that the header names, or go on as the manual
 * says; it must not crash, hang, print anything but lines of the runtime, touch
 * errno, or hold more at its end than a run without failures.
 */
#define TEST_TIMEOUT_S 300 /* for hundreds of runs */

#include <dlfcn.h>
#include <poll.h>

/* The test's own never fail. */
#include <pthread.h>
int libc_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			void *(*fn)(void *), void *arg);
#define pthread_create libc_pthread_create

#include "coroutine.h"
#include "every.h"

#define TRIES 4
/* AddressSanitizer knows nothing of ticks. */
#define TICK (TEST_ASAN ? 0 : TEST_EMULATED ? MS : UTHREAD_TICK_MIN)

/* ---- asking, and asking again ---- */

#define ERRNO 77 /* what functions of the library leave as it was */
#define QUIET(call)                                         \
	({                                                  \
		int err_;                                   \
		errno = ERRNO;                              \
		err_ = (call);                              \
		CHECK(errno == ERRNO || errno_is_shared()); \
		err_;                                       \
	})

static bool errno_is_shared(void)
{
	enum uthread_tls mode;

	return uthread_self() && !uthread_gettls(uthread_self(), &mode) &&
	       mode == UTHREAD_TLS_SHARED;
}

/* One failure is over at the next try; only one that stays may stop us. */
static bool hopeless(void)
{
	CHECK(shared->f.on);
	return false;
}

static bool create(uthread_t *t, const uthread_attr_t *a, void *(*fn)(void *),
		   void *arg)
{
	int i, err;

	for (i = 0; i < TRIES; i++) {
		err = QUIET(uthread_create(t, a, fn, arg));
		if (!err)
			return true;
		CHECK_EQ(err, EAGAIN);
	}
	return hopeless();
}

static bool start(struct uthread_config *c)
{
	int i, err;

	c->size = sizeof(*c);
	for (i = 0; i < TRIES; i++) {
		err = QUIET(uthread_init(c));
		if (!err)
			return true;
		/* EINVAL: sigaction() refuses the tick's signal. */
		CHECK(err == EAGAIN || err == EINVAL);
		CHECK(err == EAGAIN || !strcmp(shared->f.kind, "sigaction"));
	}
	return hopeless();
}

static uthread_attr_t attr(enum uthread_tls tls, int worker)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	/* A libc that is not what we know: own TLS is off for good. */
	if (tls != UTHREAD_TLS_OWN || !*uthread_tls_reason())
		CHECK_EQ(uthread_attr_settls(&a, tls), 0);
	CHECK_EQ(uthread_attr_setworker(&a, worker), 0);
	return a;
}

static void join(uthread_t t, void *value)
{
	void *v = NULL;

	CHECK_EQ(QUIET(uthread_join(t, &v)), 0);
	CHECK(v == value);
}

/* ---- the workers start, and uthreads of both kinds run ---- */

static void *add_one(void *arg)
{
	char *p = strdup("text");

	CHECK(p);
	free(p);
	add((int *)arg, 1);
	return arg;
}

static void one_of_each(void)
{
	static int ran;
	enum uthread_tls tls;
	uthread_attr_t a;
	uthread_t t;
	int n = 0;

	for (tls = UTHREAD_TLS_DEFAULT; tls <= UTHREAD_TLS_SHARED; tls++) {
		a = attr(tls, UTHREAD_WORKER_ANY);
		if (!create(&t, &a, add_one, &ran))
			continue;
		join(t, &ran);
		n++;
	}
	CHECK_EQ(load(&ran), n);
}

static void starting(void)
{
	struct uthread_config c = { .workers = 3, .spares = -1, .pin = 1 };

	if (start(&c))
		one_of_each();
}

TEST(start)
{
	every_fault(starting, 1, true);
}

static void starting_by_itself(void)
{
	setenv("UTHREAD_WORKERS", "2", 1);
	one_of_each();
}

TEST(start_by_itself)
{
	every_fault(starting_by_itself, 1, true);
}

static void starting_again(void)
{
	struct uthread_config c = { .workers = 2,
				    .tick_source = UTHREAD_TICK_PROCESS,
				    .policy = uthread_policy("fair") };

	if (!start(&c))
		return;
	one_of_each();
	CHECK_EQ(QUIET(uthread_init(&c)), EBUSY);
}

TEST(start_with_policy)
{
	every_fault(starting_again, 1, true);
}

/* ---- more workers, fewer, more ---- */

static bool set_workers(int n)
{
	int i, err, before = uthread_workers();

	for (i = 0; i < TRIES; i++) {
		err = QUIET(uthread_set_workers(n));
		if (!err)
			break;
		CHECK_EQ(err, EAGAIN);
		CHECK(uthread_workers() >= 1 && uthread_workers() < n);
		CHECK(n > before);
	}
	if (err)
		return hopeless();
	CHECK_EQ(uthread_workers(), n);
	return true;
}

static void changing(uint64_t tick_ns)
{
	struct uthread_config c = { .workers = 1,
				    .spares = -1,
				    .tick_ns = tick_ns };
	uthread_attr_t a;
	uthread_t t;
	int ran = 0;

	if (!start(&c))
		return;
	if (set_workers(3)) {
		a = attr(UTHREAD_TLS_DEFAULT, 2);
		if (create(&t, &a, add_one, &ran))
			join(t, &ran);
	}
	CHECK(set_workers(1));
	one_of_each();
	set_workers(4);
}

static void changing_with_ticks(void)
{
	changing(UTHREAD_TICK_MAX);
}

static void changing_without(void)
{
	changing(UTHREAD_TICK_OFF);
}

TEST(set_workers)
{
	if (TEST_ASAN)
		SKIP("no ticks under AddressSanitizer");
	every_fault(changing_with_ticks, 1, true);
}

TEST(set_workers_without_ticks)
{
	every_fault(changing_without, 1, true);
}

/* ---- ticks ---- */

static void need_ticks(void)
{
	if (!TICK)
		SKIP("no ticks under AddressSanitizer");
}

static int stop;

static void *busy(void *arg)
{
	while (!load(&stop))
		;
	return arg;
}

static void *set_stop(void *arg)
{
	store(&stop, 1);
	return arg;
}

static enum uthread_tick source;

/* Endless loops on every worker that there is, and one who ends them. */
static void preempting(void)
{
	struct uthread_config c = { .workers = 2,
				    .tick_source = source,
				    .tick_ns = TICK };
	uthread_t t[4];
	int i;

	if (!start(&c))
		return;
	for (i = 0; i < 4; i++)
		if (!create(&t[i], NULL, i < 3 ? busy : set_stop, NULL))
			break;
	if (i < 4) /* else it may have been set already */
		store(&stop, 1);
	while (i--)
		join(t[i], NULL);
}

TEST(ticks_worker)
{
	need_ticks();
	source = UTHREAD_TICK_WORKER;
	every_fault(preempting, 4, false);
}

TEST(ticks_process)
{
	need_ticks();
	source = UTHREAD_TICK_PROCESS;
	every_fault(preempting, 4, false);
}

TEST(ticks_monitor)
{
	need_ticks();
	source = UTHREAD_TICK_MONITOR;
	every_fault(preempting, 4, false);
}

/* ---- a thousand that wait ---- */

static uthread_sem_t go = UTHREAD_SEM_INITIALIZER(0);

static void *parked(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&go), 0);
	return arg;
}

static void parking(void)
{
	struct uthread_config c = { .workers = 2, .spares = -1 };
	static uthread_t t[1000];
	uthread_attr_t a[2];
	int n, i;

	if (!start(&c))
		return;
	a[0] = attr(UTHREAD_TLS_DEFAULT, UTHREAD_WORKER_ANY);
	a[1] = attr(UTHREAD_TLS_SHARED, UTHREAD_WORKER_ANY);
	for (n = 0; n < 1000; n++)
		if (!create(&t[n], &a[n & 1], parked, &t[n]))
			break;
	for (i = 0; i < n; i++)
		CHECK_EQ(QUIET(uthread_sem_post(&go)), 0);
	for (i = 0; i < n; i++)
		join(t[i], &t[i]);
}

TEST(parked_thousand)
{
	every_fault(parking, 97, true);
}

static void parking_mprotect(void)
{
	setenv("UTHREAD_GUARD", "mprotect", 1);
	parking();
}

TEST(parked_thousand_mprotect)
{
	every_fault(parking_mprotect, 397, true);
}

/* What fails again and again must not use up anything. */
static void failing_long(void)
{
	struct uthread_config c = { .workers = 1, .spares = -1 };
	struct uthread_stats before, after;
	uthread_t t;
	int i;

	if (!start(&c) || !create(&t, NULL, parked, NULL))
		return;
	CHECK_EQ(uthread_stats(&before, sizeof(before)), 0);
	for (i = 0; shared->f.on && i < 200; i++) {
		uthread_t u;

		if (!QUIET(uthread_create(&u, NULL, add_one, &stop)))
			join(u, &stop);
	}
	CHECK_EQ(uthread_stats(&after, sizeof(after)), 0);
	CHECK(after.stacks <= before.stacks + 2);
	uthread_sem_post(&go);
	join(t, NULL);
}

TEST(failing_again_and_again)
{
	every_fault(failing_long, 1, false);
}

/* ---- coroutines, in a pthread and in a uthread ---- */

static void co_fn(void *arg)
{
	add((int *)arg, 1);
	CHECK_EQ(coroutine_yield(), 0);
	add((int *)arg, 1);
}

static void *coroutines(void *arg)
{
	struct coroutine_config c = { .size = sizeof(c), .pool_max = 1 };
	coroutine_scheduler_t *s;
	coroutine_t *co;
	int ran, n, i, backend, err;

	for (backend = COROUTINE_ASM; backend <= COROUTINE_UCONTEXT;
	     backend++) {
		c.backend = (enum coroutine_backend)backend;
		ran = n = 0;
		for (i = 0; i < TRIES; i++) {
			err = QUIET(coroutine_scheduler_init(&s, &c));
			CHECK(!err || err == ENOMEM);
			if (!err)
				break;
		}
		if (err) {
			hopeless();
			continue;
		}
		for (i = 0; i < 4; i++) {
			err = QUIET(
				coroutine_create(s, &co, NULL, co_fn, &ran));
			CHECK(!err || err == ENOMEM);
			n += !err;
		}
		CHECK_EQ(QUIET(coroutine_run(s)), 0);
		CHECK_EQ(ran, 2 * n);
		CHECK(n >= 3 || shared->f.on);
		CHECK_EQ(QUIET(coroutine_scheduler_destroy(s)), 0);
	}
	return arg;
}

static void with_coroutines(void)
{
	struct uthread_config c = { .workers = 1, .spares = -1 };
	uthread_t t;

	coroutines(NULL);
	if (start(&c) && create(&t, NULL, coroutines, NULL))
		join(t, NULL);
}

TEST(coroutine)
{
	every_fault(with_coroutines, 1, true);
}

/* ---- locks, with waits in the kernel ---- */

static uthread_mutex_t mutex = UTHREAD_MUTEX_INITIALIZER;
static uthread_cond_t cond = UTHREAD_COND_INITIALIZER;
static pthread_mutex_t kernel_mutex = PTHREAD_MUTEX_INITIALIZER;
static int counted;

static void *count(void *arg)
{
	struct timespec soon;
	int i;

	for (i = 0; i < 20; i++) {
		CHECK(!pthread_mutex_lock(&kernel_mutex));
		CHECK_EQ(QUIET(uthread_mutex_lock(&mutex)), 0);
		counted++;
		if (uthread_self() && i % 4 == 0)
			uthread_yield();
		soon = test_in(1000);
		CHECK_EQ(QUIET(uthread_cond_timedwait(&cond, &mutex, &soon)),
			 ETIMEDOUT);
		CHECK_EQ(QUIET(uthread_mutex_unlock(&mutex)), 0);
		CHECK(!pthread_mutex_unlock(&kernel_mutex));
	}
	return arg;
}

static void locking(void)
{
	struct uthread_config c = { .workers = 2, .tick_ns = TICK };
	uthread_t t[4];
	pthread_t p;
	int n;

	if (!start(&c))
		return;
	/* A holder of kernel_mutex that a tick stops is bound to its worker
	 * then, and who waits there for the mutex cannot be stopped: a limit of
	 * shared TLS (docs/runtime/README.md). */
	if (*uthread_tls_reason())
		return;
	CHECK(!pthread_create(&p, NULL, count, NULL));
	for (n = 0; n < 4; n++)
		if (!create(&t[n], NULL, count, NULL))
			break;
	CHECK(!pthread_join(p, NULL));
	for (int i = 0; i < n; i++)
		join(t[i], NULL);
	CHECK_EQ(counted, 20 * (n + 1));
}

TEST(locks)
{
	need_ticks(); /* all may sleep in the kernel for who waits in a queue */
	every_fault(locking, 4, false);
}

/* ---- spare workers ---- */

static int pipes[6][2];

static void *read_one(void *arg)
{
	char c;

	CHECK(read(*(int *)arg, &c, 1) == 1);
	return arg;
}

static void *write_all(void *arg)
{
	for (int i = 0; i < 6; i++)
		CHECK(write(pipes[i][1], "", 1) == 1);
	return arg;
}

/* All asleep in the kernel until the last one has run. */
static void blocking(void)
{
	struct uthread_config c = { .workers = 1,
				    .spares = 3,
				    .tick_ns = TICK };
	uthread_t t[6], w;
	int n, i;

	if (!start(&c))
		return;
	for (n = 0; n < 6; n++) {
		CHECK(!pipe(pipes[n]));
		if (!create(&t[n], NULL, read_one, &pipes[n][0]))
			break;
	}
	if (n == 6 && create(&w, NULL, write_all, NULL))
		join(w, NULL);
	else
		for (i = 0; i < n; i++)
			CHECK(write(pipes[i][1], "", 1) == 1);
	for (i = 0; i < n; i++)
		join(t[i], &pipes[i][0]);
}

TEST(spares)
{
	need_ticks();
	every_fault(blocking, 4, false);
}

/* ---- fork ---- */

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

/* qemu-user starts no threads in the child of a process with threads. */
TEST(fork)
{
	if (TEST_EMULATED)
		SKIP("no threads in the child of a process with threads here");
	every_fault(forking, 4, false);
}

TEST(fork_shared)
{
	if (TEST_EMULATED)
		SKIP("no threads in the child of a process with threads here");
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

/* ---- keys ---- */

static uthread_key_t key;

static void *use_key(void *arg)
{
	int i, err = 0;

	for (i = 0; i < TRIES; i++) {
		err = QUIET(uthread_setspecific(key, arg));
		if (!err)
			break;
		CHECK_EQ(err, ENOMEM);
		CHECK(!uthread_getspecific(key));
	}
	if (err)
		hopeless();
	else
		CHECK(uthread_getspecific(key) == arg);
	return arg;
}

static void with_keys(void)
{
	struct uthread_config c = { .workers = 1, .spares = -1 };
	uthread_t t;
	int i;

	CHECK_EQ(QUIET(uthread_key_create(&key, NULL)), 0);
	if (start(&c))
		for (i = 0; i < 3; i++)
			if (create(&t, NULL, use_key, &key))
				join(t, &key);
	in_pthread(use_key, &key);
	use_key(&key);
}

TEST(keys)
{
	every_fault(with_keys, 1, true);
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
