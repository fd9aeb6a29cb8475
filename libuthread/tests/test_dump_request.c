/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTHREAD_DUMP: a signal, and all uthreads with their backtraces are on standard error,
 * while the program goes on. The functions are seen by name: meson.build.
 */
#include <link.h>
#include <sys/resource.h>

#include "util.h"

#include "base/nouns.h"
#include "uthread/io.h"

#define STAYS __attribute__((noinline, noclone))
#define BUSY 3

static char text[1 << 20];
static FILE *said;

/* Standard error is a file from here on, and the runtime listens. */
static void start(const char *value)
{
	CHECK_EQ(setenv("UTHREAD_DUMP", value, 1), 0);
	said = tmpfile();
	CHECK(said);
	CHECK(dup2(fileno(said), STDERR_FILENO) == STDERR_FILENO);
}

static int ends(void)
{
	ssize_t n = pread(fileno(said), text, sizeof(text) - 1, 0);
	const char *p = text;
	int found = 0;

	CHECK(n >= 0 && n < (ssize_t)sizeof(text) - 1);
	text[n] = 0;
	while ((p = strstr(p, "uthread: dump: end;"))) {
		found++;
		p++;
	}
	return found;
}

/* Until there are so many dumps; a plain pthread writes them. */
static void await(int dumps)
{
	while (ends() < dumps)
		usleep(1000);
}

static const char *last(void)
{
	const char *p = text, *at = text;

	while ((p = strstr(p, "uthread: dump: "))) {
		if (strncmp(p, "uthread: dump: end", 18))
			at = p;
		p++;
	}
	return at;
}

/* Where a worker comes late, as on a busy machine, some are left out. */
static void dump_whole(void)
{
	static int dumps;

	do {
		kill(getpid(), SIGQUIT);
		await(++dumps);
	} while (strstr(last(), "do not answer") ||
		 strstr(last(), "not known where"));
}

/* What is said of the uthread of that name, frames and all. */
static const char *about(const char *name)
{
	static char part[1 << 16];
	char quoted[32];
	const char *p, *next;
	size_t n;

	snprintf(quoted, sizeof(quoted), " '%s': ", name);
	p = strstr(last(), quoted);
	if (!p)
		printf("no %s in:\n%s", quoted, text);
	fflush(stdout);
	CHECK(p);
	next = strstr(p, "\nuthread: uthread ");
	n = next ? (size_t)(next - p) : strlen(p);
	CHECK(n < sizeof(part));
	memcpy(part, p, n);
	part[n] = 0;
	return part;
}

static void has(const char *name, const char *what)
{
	const char *part = about(name);

	if (!strstr(part, what))
		printf("no '%s' in: %s\nof:\n%s\n", what, part, text);
	fflush(stdout);
	CHECK(strstr(part, what));
}

static uthread_t named(const char *name, int worker, void *(*fn)(void *),
		       void *arg)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setname(&a, name), 0);
	CHECK_EQ(uthread_attr_setworker(&a, worker), 0);
	return spawn_attr(&a, fn, arg);
}

static uthread_t waits(const char *name, void *(*fn)(void *), void *arg)
{
	uthread_t t = named(name, UTHREAD_WORKER_ANY, fn, arg);

	while (load_relaxed(&t->state) != UT_WAITING)
		usleep(1000);
	return t;
}

/* ---- who waits, who was stopped and who runs ---- */

static uthread_mutex_t mutex = UTHREAD_MUTEX_INITIALIZER;
static uthread_sem_t sem = UTHREAD_SEM_INITIALIZER(0);
static uint64_t turns[BUSY];
static bool enough;
static int pair[2];

STAYS void waits_for_mutex(void);
STAYS void waits_for_mutex(void)
{
	CHECK_EQ(uthread_mutex_lock(&mutex), 0);
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
}

static void *locks(void *arg)
{
	waits_for_mutex();
	return arg;
}

STAYS void waits_for_byte(void);
STAYS void waits_for_byte(void)
{
	char byte = 0;

	CHECK_EQ(uthread_read(pair[0], &byte, 1), 1);
	CHECK_EQ(byte, 'x');
}

static void *reads(void *arg)
{
	waits_for_byte();
	return arg;
}

STAYS void computes_on(uint64_t *turn);
STAYS void computes_on(uint64_t *turn)
{
	while (!load_relaxed(&enough))
		store_relaxed(turn, *turn + 1);
}

static void *computes(void *arg)
{
	computes_on(arg);
	return arg;
}

static void everybody(void)
{
	uthread_t t[2], busy[BUSY];
	char name[UTHREAD_NAME_MAX];
	int i;

	start("SIGQUIT");
	start_workers(2);
	CHECK_EQ(pipe(pair), 0);
	CHECK_EQ(uthread_mutex_lock(&mutex), 0);
	t[0] = waits("locker", locks, NULL);
	t[1] = waits("reader", reads, NULL);
	for (i = 0; i < BUSY; i++) {
		snprintf(name, sizeof(name), "busy %d", i);
		busy[i] = named(name, 1, computes, &turns[i]);
	}
	for (i = 0; i < BUSY; i++)
		while (!load_relaxed(&turns[i]))
			usleep(1000);
	for (i = 0; i < 3; i++)
		dump_whole();
	has("locker", "waiting for mutex");
	has("locker", " waits_for_mutex+0x");
	has("reader", " waits_for_byte+0x");
	for (i = 0; i < BUSY; i++) {
		snprintf(name, sizeof(name), "busy %d", i);
		has(name, " computes_on+0x");
	}
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(uthread_write(pair[1], "x", 1), 1);
	store_relaxed(&enough, true);
	for (i = 0; i < 2; i++)
		joined(t[i]);
	for (i = 0; i < BUSY; i++)
		joined(busy[i]);
}

TEST(all_are_shown)
{
	everybody();
}

#if defined(__x86_64__)
TEST(all_are_shown_stopped_in_a_frame)
{
	CHECK_EQ(setenv("UTHREAD_PREEMPT", "frame", 1), 0);
	everybody();
}
#endif

/* ---- with locks that the dump must not want ---- */

static int in_the_loader(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	(void)arg;
	CHECK_EQ(uthread_sem_wait(&sem), 0);
	return 1;
}

static void *has_the_loader(void *arg)
{
	dl_iterate_phdr(in_the_loader, NULL);
	return arg;
}

TEST(who_has_the_loader_is_shown)
{
	uthread_t t;

	start("QUIT");
	start_workers(2);
	t = waits("loader", has_the_loader, NULL);
	dump_whole();
	has("loader", " dl_iterate_phdr+0x");
	CHECK_EQ(uthread_sem_post(&sem), 0);
	joined(t);
}

/* ---- whose signal it is ---- */

static volatile int handled;

static void handler(int sig)
{
	handled = sig;
}

TEST(program_keeps_its_handler)
{
	signal(SIGUSR2, handler);
	start("SIGUSR2");
	in_uthread(nothing, NULL);
	kill(getpid(), SIGUSR2);
	while (handled != SIGUSR2)
		uthread_yield();
	ends();
	CHECK(strstr(text,
		     "UTHREAD_DUMP: signal 12 is handled by the program"));
}

TEST(child_is_ended_by_it)
{
	int status;
	pid_t pid;

	start("SIGQUIT");
	in_uthread(nothing, NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		raise(SIGQUIT);
		_exit(1);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGQUIT);
	kill(getpid(), SIGQUIT);
	await(1);
}

/* One that has uthreads of its own listens, too. (qemu-user loses count of its CPUs
 * where a child of a program with threads makes more: cpu == current_cpu.) */
#if !TEST_EMULATED
TEST(child_with_uthreads_has_its_own)
{
	int status;
	pid_t pid;

	start("SIGQUIT");
	in_uthread(nothing, NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		in_uthread(nothing, NULL);
		raise(SIGQUIT);
		await(1);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}
#endif

TEST(nonsense_is_said)
{
	start("SIGKILL");
	in_uthread(nothing, NULL);
	ends();
	CHECK(strstr(text, "UTHREAD_DUMP=SIGKILL: no signal that can be had"));
}

TEST_MAIN()
