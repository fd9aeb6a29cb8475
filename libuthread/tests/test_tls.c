/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tls.c - a TLS block of its own: thread-local variables, errno, the
 * words of the thread control block, and that a used block is as new for the
 * next uthread. What libc builds upon it is in test_libc.c, test_pthread.c,
 * test_signal.c, test_malloc.c, test_process.c and test_dlopen.c.
 */
#include <dlfcn.h>
#include <locale.h>
#include <netdb.h>
#include <sched.h>
#include <setjmp.h>

#include "util.h"

static _Thread_local int data = 42;
static _Thread_local int zero;
static _Thread_local char text[64] = "as it was";
static _Thread_local _Alignas(256) char aligned[256];

/* Not inlined: the compiler may keep the address of a thread-local variable
 * across a switch, and with own TLS it may. Here it must look. */
__attribute__((noinline)) static int *data_here(void)
{
	__asm__ volatile("" : : : "memory");
	return &data;
}

__attribute__((noinline)) static int *errno_here(void)
{
	__asm__ volatile("" : : : "memory");
	return &errno;
}

__attribute__((noinline)) static pthread_t self_here(void)
{
	__asm__ volatile("" : : : "memory");
	return pthread_self();
}

/* ---- variables ---- */

static void check_fresh(void)
{
	CHECK_EQ(data, 42);
	CHECK_EQ(zero, 0);
	CHECK(!strcmp(text, "as it was"));
	CHECK_EQ((uintptr_t)aligned % 256, 0);
	for (int i = 0; i < 256; i++)
		CHECK_EQ(aligned[i], 0);
}

static void spoil(int with)
{
	data = zero = with;
	snprintf(text, sizeof(text), "%d", with);
	memset(aligned, with, sizeof(aligned));
}

static void *keeps_its_own(void *arg)
{
	int me = (int)uthread_id(uthread_self()), *where = &data;
	char want[64];

	check_fresh();
	spoil(me);
	snprintf(want, sizeof(want), "%d", me);
	for (int i = 0; i < 100; i++) {
		uthread_yield();
		if (i % 10 == 0)
			uthread_sleep(1000);
		CHECK_EQ(data, me);
		CHECK_EQ(zero, me);
		CHECK(!strcmp(text, want));
		CHECK_EQ(aligned[255], (char)me);
		CHECK(where == data_here());
	}
	return arg;
}

TEST(variables_are_the_uthreads_own)
{
	start_workers(3);
	need_own_tls();
	spoil(-1);
	for (int i = 0; i < 3; i++) /* the later ones on used blocks */
		crowd(100, 0, keeps_its_own, NULL);
	CHECK_EQ(data, -1);
}

static void *keeps_its_own_moving(void *arg)
{
	int mine = 1, *where = &data;

	for (int i = 0; i < 20; i++) {
		data = errno = ++mine;
		migrate(); /* a tick may move it before, and after, too */
		CHECK(where == data_here());
		CHECK_EQ(data, mine);
		CHECK_EQ(errno, mine);
	}
	return arg;
}

TEST(variables_move_with_the_uthread)
{
	start_workers(2);
	need_own_tls();
	in_uthread(keeps_its_own_moving, NULL);
}

#define MANY SCALE(2000)

static uthread_barrier_t all;

static void *one_of_many(void *arg)
{
	data = (int)(intptr_t)arg;
	uthread_barrier_wait(&all);
	CHECK_EQ(data, (intptr_t)arg);
	return &data;
}

TEST(thousands_have_blocks_at_once)
{
	uthread_t *t = calloc((size_t)MANY, sizeof(*t));
	struct uthread_stats st;

	start_workers(2);
	need_own_tls();
	CHECK_EQ(uthread_barrier_init(&all, NULL, (unsigned)MANY), 0);
	for (intptr_t i = 0; i < MANY; i++)
		t[i] = spawn(one_of_many, (void *)i);
	for (int i = 0; i < MANY; i++)
		joined(t[i]);
	CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	CHECK_EQ(st.tls_blocks, MANY);
	CHECK_EQ(st.stacks, MANY);
}

/* ---- shared TLS: the worker's, and whoever runs there shares it ---- */

static void *leave_a_mark(void *arg)
{
	*data_here() = 7;
	*errno_here() = 8;
	return arg;
}

static void *see_the_mark(void *arg)
{
	*data_here() = 1;
	*errno_here() = 2;
	joined(spawn_tls(UTHREAD_TLS_SHARED, leave_a_mark, NULL));
	CHECK_EQ(*data_here(), 7);
	CHECK_EQ(*errno_here(), 8);
	/* One with own TLS on the same worker leaves no mark. */
	in_uthread(leave_a_mark, NULL);
	*data_here() = 1;
	if (!*uthread_tls_reason()) {
		joined(spawn_tls(UTHREAD_TLS_OWN, leave_a_mark, NULL));
		CHECK_EQ(*data_here(), 1);
	}
	return arg;
}

TEST(shared_tls_is_the_workers)
{
	/* A tick would keep errno for who was stopped. */
	CHECK(!setenv("UTHREAD_TICK", "off", 1));
	start_workers(1);
	data = -1;
	joined(spawn_tls(UTHREAD_TLS_SHARED, see_the_mark, NULL));
	CHECK_EQ(data, -1); /* a plain pthread's is its own all the same */
}

static void *changes_with_the_worker(void *arg)
{
	pthread_t here = self_here();
	int *where = data_here();

	for (int i = 0; i < 10; i++) {
		migrate();
		CHECK(!pthread_equal(self_here(), here));
		CHECK(data_here() != where);
		here = self_here();
		where = data_here();
	}
	return arg;
}

TEST(shared_tls_changes_with_the_worker)
{
	start_workers(2);
	joined(spawn_tls(UTHREAD_TLS_SHARED, changes_with_the_worker, NULL));
}

static void *both_kinds(void *arg)
{
	uthread_t t[2];

	for (int i = 0; i < 200; i++) {
		data = i;
		t[0] = spawn_tls(UTHREAD_TLS_SHARED, leave_a_mark, NULL);
		t[1] = spawn_tls(UTHREAD_TLS_OWN, leave_a_mark, NULL);
		joined(t[i & 1]);
		CHECK_EQ(data, i);
		joined(t[!(i & 1)]);
		CHECK_EQ(data, i);
	}
	return arg;
}

TEST(own_and_shared_mix_on_the_workers)
{
	start_workers(2);
	need_own_tls();
	crowd(16, 0, both_kinds, NULL);
}

/* ---- errno ---- */

static uthread_mutex_t m = UTHREAD_MUTEX_INITIALIZER;
static uthread_cond_t c = UTHREAD_COND_INITIALIZER;
static uthread_sem_t none = UTHREAD_SEM_INITIALIZER(0);

static void *calls_everything(void *arg)
{
	struct timespec d;
	uthread_key_t k;
	uthread_t t;
	char name[UTHREAD_NAME_MAX];

	CHECK_EQ(errno, 0);
	errno = EXDEV;
	for (int i = 0; i < 20; i++) {
		uthread_yield();
		uthread_sleep(1000);
		CHECK_EQ(uthread_mutex_lock(&m), 0);
		d = test_in(10000);
		CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), ETIMEDOUT);
		CHECK_EQ(uthread_mutex_unlock(&m), 0);
		d = test_in(10000);
		CHECK_EQ(uthread_sem_timedwait(&none, &d), ETIMEDOUT);
		CHECK_EQ(uthread_sem_trywait(&none), EAGAIN);
		CHECK_EQ(uthread_key_create(&k, NULL), 0);
		CHECK_EQ(uthread_setspecific(k, &k), 0);
		CHECK_EQ(uthread_key_delete(k), 0);
		t = spawn(nothing, NULL);
		CHECK_EQ(uthread_setname(t, "name"), 0);
		CHECK_EQ(uthread_getname(t, name, sizeof(name)), 0);
		joined(t);
		CHECK_EQ(errno, EXDEV);
	}
	return arg;
}

TEST(errno_is_zero_at_the_start_and_left_alone)
{
	start_workers(2);
	need_own_tls();
	errno = EDOM;
	crowd(20, 0, calls_everything, NULL);
	CHECK_EQ(errno, EDOM);
	/* In a plain pthread too. */
	errno = 0;
	in_pthread(nothing, NULL);
	calls_everything(NULL);
	CHECK_EQ(errno, EXDEV);
}

/* ---- the thread control block ---- */

/* A lock names its owner by the thread id in struct pthread. */
static void *tid_is_the_id(void *arg)
{
	pthread_mutex_t e = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

	for (int i = 0; i < 5; i++) {
		CHECK(!pthread_mutex_lock(&e));
		CHECK_EQ(e.__data.__owner, uthread_id(uthread_self()));
		CHECK(!pthread_mutex_unlock(&e));
		uthread_sleep(1000);
	}
	return arg;
}

TEST(thread_id_is_unique_and_not_the_kernels)
{
	start_workers(3);
	need_own_tls();
	for (int i = 0; i < 3; i++)
		crowd(50, 0, tid_is_the_id, NULL);
}

static void *self_is_own(void *arg)
{
	pthread_t me = pthread_self();

	CHECK(!pthread_equal(me, *(pthread_t *)arg));
	for (int i = 0; i < 20; i++) {
		uthread_sleep(1000);
		CHECK(pthread_equal(pthread_self(), me));
	}
	return (void *)me;
}

TEST(pthread_self_is_the_uthreads)
{
	pthread_t main_self = pthread_self();
	uthread_t t[50];
	void *self[50];

	start_workers(3);
	need_own_tls();
	for (int i = 0; i < 50; i++)
		t[i] = spawn(self_is_own, &main_self);
	for (int i = 0; i < 50; i++) {
		self[i] = joined(t[i]);
		for (int j = 0; j < i; j++)
			CHECK(self[i] != self[j]);
	}
}

#if defined(__x86_64__)
static uint64_t guard(int offset)
{
	uint64_t v;

	if (offset == 0x28)
		__asm__ volatile("movq %%fs:0x28, %0" : "=r"(v));
	else
		__asm__ volatile("movq %%fs:0x30, %0" : "=r"(v));
	return v;
}

static uint64_t guards[2];

static void *compare_guards(void *arg)
{
	CHECK(guards[0] == guard(0x28));
	CHECK(guards[1] == guard(0x30));
	return arg;
}

TEST(stack_and_pointer_guards_are_the_processs)
{
	start_workers(2);
	guards[0] = guard(0x28);
	guards[1] = guard(0x30);
	CHECK(guards[0] && guards[1]);
	crowd(10, 2, compare_guards, NULL);
}
#endif

#if !TEST_ASAN /* which finds it first: test_san.c */
__attribute__((noinline)) static void smash(size_t n)
{
	char small[16];
	char *volatile p = small;

	memset(p, 'x', n);
	__asm__ volatile("" : : "r"(p) : "memory");
}

static void *smashes(void *arg)
{
	smash(64);
	return arg;
}

TEST_DIES(stack_protector_works, SIGABRT, "stack smashing detected")
{
	in_uthread(smashes, NULL);
}
#endif

/* A canary put on one worker is checked on another. */
__attribute__((noinline)) static int canary_moves(int n)
{
	char buf[64];

	snprintf(buf, sizeof(buf), "%d", n);
	migrate();
	return atoi(buf);
}

static void *canaries_move(void *arg)
{
	for (int i = 0; i < 10; i++)
		CHECK_EQ(canary_moves(i), i);
	return arg;
}

TEST(canaries_survive_migration)
{
	start_workers(2);
	in_uthread(canaries_move, NULL);
	joined(spawn_tls(UTHREAD_TLS_SHARED, canaries_move, NULL));
}

static void *jumps(void *arg)
{
	volatile int rounds = 0;
	jmp_buf env;
	sigjmp_buf senv;

	if (setjmp(env) < 10) {
		rounds++;
		migrate();
		longjmp(env, rounds);
	}
	CHECK_EQ(rounds, 10);
	if (!sigsetjmp(senv, 1)) {
		uthread_yield();
		siglongjmp(senv, 1);
	}
	return arg;
}

TEST(longjmp_after_migration)
{
	start_workers(2);
	in_uthread(jumps, NULL);
}

/* exit() calls what atexit() hid with the pointer guard of another thread. */
static void at_exit(void)
{
	if (write(2, "atexit ran\n", 11) != 11)
		_exit(9);
}

static void *register_at_exit(void *arg)
{
	CHECK(!atexit(at_exit));
	return arg;
}

static void exits(void)
{
	in_uthread(register_at_exit, NULL);
	exit(3);
}

TEST(pointers_hidden_by_a_uthread_are_found_by_main)
{
	static char err[4096];
	int status = in_child(exits, err, sizeof(err));

	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	CHECK(strstr(err, "atexit ran"));
}

static int cpu_of[2];

static void *asks_cpu(void *arg)
{
	for (int i = 0; i < 50; i++) {
		int at, cpu;

		CHECK_EQ(uthread_preempt_disable(), 0);
		at = uthread_worker();
		cpu = sched_getcpu();
		CHECK_EQ(uthread_preempt_enable(), 0);
		/* Spares are not pinned. */
		if (at < 2)
			CHECK_EQ(cpu, cpu_of[at]);
		migrate();
	}
	return arg;
}

TEST(sched_getcpu_is_right_after_migration)
{
	struct uthread_config conf = { .size = sizeof(conf),
				       .workers = 2,
				       .pin = 1 };
	cpu_set_t set;

	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	if (CPU_COUNT(&set) < 2)
		SKIP("one CPU only");
	for (int cpu = 0, n = 0; n < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpu_of[n++] = cpu;
	CHECK_EQ(uthread_init(&conf), 0);
	in_uthread(asks_cpu, NULL);
	joined(spawn_tls(UTHREAD_TLS_SHARED, asks_cpu, NULL));
}

/* ---- a used block is as new ---- */

static pthread_key_t plain_key, far_key;

static void *use_up(void *arg)
{
	CHECK_EQ(errno, 0);
	check_fresh();
	spoil(99);
	errno = ENOENT;
	h_errno = TRY_AGAIN;
	CHECK(!pthread_setspecific(plain_key, &data));
	CHECK(!pthread_setspecific(far_key, &data));
	CHECK(!dlopen("/no/such/library", RTLD_NOW));
	uselocale(newlocale(LC_ALL_MASK, "C.UTF-8", NULL));
	strerror(12345); /* keeps a buffer of the thread's */
	if (arg)
		uthread_exit(&data);
	return &data;
}

static void *as_new(void *arg)
{
	CHECK_EQ(errno, 0);
	CHECK_EQ(h_errno, 0);
	check_fresh();
	CHECK(!pthread_getspecific(plain_key));
	CHECK(!pthread_getspecific(far_key));
	CHECK(!dlerror());
	CHECK(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
	CHECK_EQ(MB_CUR_MAX, 1);
	(void)arg;
	return &data;
}

TEST(used_block_is_as_new)
{
	pthread_key_t k;

	start_workers(1);
	need_own_tls();
	/* One key in struct pthread itself, one in a block behind it. */
	CHECK(!pthread_key_create(&plain_key, NULL));
	for (int i = 0; i < 40; i++)
		CHECK(!pthread_key_create(&k, NULL));
	CHECK(!pthread_key_create(&far_key, NULL));
	for (int i = 0; i < 20; i++) {
		void *was = in_uthread(use_up, i % 2 ? &k : NULL);

		CHECK(in_uthread(as_new, NULL) == was);
	}
}

TEST_MAIN()
