/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults_io.c - input and output while each of its system calls says each error
 * that its manual page lists, is interrupted again and again, or does a part only.
 *
 * A scene (io_scenes.c) is run once as it is, which tells what it calls, and then with
 * each fault (io_table.c) of each of these calls at its first uses and in the middle,
 * once and several times in a row. Each call of ours must then either do its thing or
 * say that error, and go on when it is called again; and no descriptor is left open.
 *
 * FAULTS_EVERY=1: all errors, also where it takes long.
 * FAULTS_S=N: what runs for longer hangs.
 */
#define TEST_TIMEOUT_S 3600 /* each run has a limit of its own */

#include <dirent.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "io_scenes.h"
#include "io_table.h"
#include "util.h"

/* Errors of a call that are tried: fewer where a process is dear. */
static int errors_tried(void)
{
	return TEST_EMULATED && !getenv("FAULTS_EVERY") ? 2 : ERRORS_MAX;
}

/* For one process. */
#define TIME_S                                                   \
	(getenv("FAULTS_S")	    ? atoi(getenv("FAULTS_S")) : \
	 TEST_EMULATED || TEST_ASAN ? 240 :                      \
				      60)

/* No disk: what it says matters, not how long it takes. */
static char folder[] = "/dev/shm/uthread-faults-XXXXXX";
char io_path[64];

static void (*scene)(void);

static struct shared {
	uint32_t calls[IO_CALLS]; /* of a run as it is */
	uint32_t runs, hits;
	struct io_fault now;
	int row, only; /* `only` >= 0: that error alone, */
	uint32_t at, times; /* there */
} *shared;

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void list_descriptors(void)
{
	char name[32], to[200];
	ssize_t n;
	int fd;

	for (fd = 0; fd < 1024; fd++) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, to, sizeof(to) - 1);
		if (n > 0)
			fprintf(stderr, "  %d: %.*s\n", fd, (int)n, to);
	}
}

static void *run_scene(void *arg)
{
	scene();
	return arg;
}

/* The runtime opens what it needs for itself: once somebody waits, and is not late. */
static void *waits(void *arg)
{
	struct timespec soon;
	int p[2];

	CHECK(!pipe(p));
	do {
		soon = test_in(MS);
		CHECK_EQ(uthread_io_wait(p[0], POLLIN, &soon), -1);
	} while (!stats().io);
	close(p[0]);
	close(p[1]);
	return arg;
}

/* Who does what, and then the end. */
static void too_long(int sig)
{
	uthread_dump(2);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void start(void)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 2 };

	signal(SIGALRM, too_long);
	alarm(TIME_S);
	/* Who writes to a reader that was told of an error. */
	signal(SIGPIPE, SIG_IGN);
	CHECK_EQ(uthread_init(&c), 0);
	if (shared->only < 0)
		in_uthread(waits, NULL);
}

static void as_it_is(void)
{
	int i;

	shared->only = 0; /* all calls */
	start();
	shared->only = -1;
	in_uthread(run_scene, NULL);
	for (i = 0; i < IO_CALLS; i++)
		if (shared->calls[i] < load(&io_calls[i]))
			shared->calls[i] = load(&io_calls[i]);
}

static void arm(enum io_call call, int error, uint32_t at, uint32_t times)
{
	io_fault.call = call;
	io_fault.error = error;
	io_fault.at = at;
	store(&io_fault.hits, 0);
	store(&io_calls[call], 0);
	shared->now = io_fault;
	shared->now.times = times;
	store(&io_fault.times, times);
}

static void run_armed(enum io_call call)
{
	int before = descriptors(), i;

	in_uthread(run_scene, NULL);
	store(&io_fault.times, 0);
	shared->runs++;
	shared->hits += load(&io_fault.hits);
	/* Others may have one open for a moment: the monitor, for limits. */
	for (i = 0; !io_table[io_row_of(call)].once && descriptors() > before;
	     i++) {
		if (i == 5000) {
			list_descriptors();
			CHECK_EQ(descriptors(), before);
		}
		usleep(1000);
	}
}

static void with(enum io_call call, int error, uint32_t at, uint32_t times)
{
	arm(call, error, at, times);
	run_armed(call);
}

#define RUNS_AS_IT_IS 4

/* Uses at which it is tried: the first ones, and one in the middle. */
#define USES 3

static uint32_t use(uint32_t i, uint32_t calls)
{
	return i < USES - 1 ? i + 1 : calls / 2 + 1;
}

static void with_all(void)
{
	const int *errors = io_table[shared->row].errors;
	enum io_call call = io_table[shared->row].call;
	uint32_t i;
	int e;

	if (shared->only >= 0) {
		if (!io_table[shared->row].early)
			start();
		arm(call, errors[shared->only], shared->at, shared->times);
		if (io_table[shared->row].early)
			start();
		run_armed(call);
		return;
	}
	start();
	in_uthread(run_scene, NULL);
	for (e = 0; e < errors_tried() && errors[e]; e++) {
		for (i = 0; i < USES; i++)
			with(call, errors[e], use(i, shared->calls[call]), 1);
		if (errors[e] != EEXIST || call != CALL_EPOLL_CTL)
			with(call, errors[e], 1, errors[e] == EINTR ? 100 : 4);
	}
}

static void run(void (*fn)(void))
{
	const struct io_fault *f = &shared->now;
	char err[8192];
	int status = in_child(fn, err, sizeof(err));

	/* That there can be no more spares is said. */
	if (WIFEXITED(status) && !WEXITSTATUS(status) &&
	    (!*err || !strncmp(err, "uthread: ", 9)))
		return;
	fprintf(stderr, "%s says %s at use %u, %u times; status 0x%x\n%s",
		io_call_names[f->call],
		f->error == SHORT ? "less" : strerror(f->error), f->at,
		f->times, (unsigned)status, err);
	_exit(1);
}

static void each_in_a_process(int row)
{
	const uint32_t calls = shared->calls[io_table[row].call];
	uint32_t i;
	int e;

	for (e = 0; e < errors_tried() && io_table[row].errors[e]; e++)
		for (i = 0; i <= USES; i++) {
			shared->only = e;
			shared->at = i ? use(i - 1, calls) : 1;
			shared->times = i ? 1 : 1000;
			if (i < 2 || shared->at <= calls)
				run(with_all);
		}
	shared->only = -1;
}

static void every_fault(void (*fn)(void))
{
	int row;

	/* The faults are those of this back end's calls. */
	setenv("UTHREAD_IO", "epoll", 0);
	if (!strcmp(getenv("UTHREAD_IO"), "uring") && !io_ring_answers())
		printf("     requests are answered as they are: Linux is older than 6.10\n");
	scene = fn;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	shared->only = -1;
	CHECK(mkdtemp(folder));
	snprintf(io_path, sizeof(io_path), "%s/file", folder);
	/* Who is quicker decides what is called. */
	for (row = 0; row < RUNS_AS_IT_IS; row++)
		run(as_it_is);
	for (row = 0; row < io_rows; row++) {
		if (!shared->calls[io_table[row].call])
			continue;
		shared->row = row;
		if (io_table[row].once)
			each_in_a_process(row);
		else
			run(with_all);
	}
	unlink(io_path);
	rmdir(folder);
	printf("     %u runs, %u failures\n", shared->runs, shared->hits);
	CHECK(shared->hits > 20);
}

TEST(a_pipe)
{
	every_fault(io_scene_in_pipe);
}

TEST(a_local_socket)
{
	every_fault(io_scene_in_local_socket);
}

TEST(connections_by_tcp)
{
	every_fault(io_scene_by_tcp);
}

TEST(connections_by_a_local_name)
{
	every_fault(io_scene_by_local_name);
}

TEST(datagrams_by_udp)
{
	every_fault(io_scene_by_udp);
}

TEST(datagrams_by_a_local_name)
{
	every_fault(io_scene_by_local_datagrams);
}

TEST(descriptors_that_are_closed_meanwhile)
{
	every_fault(io_scene_closed);
}

TEST(files)
{
	io_of_files = true;
	every_fault(io_scene_in_file);
}

TEST(splice_and_sendfile)
{
	io_of_files = true;
	every_fault(io_scene_moved);
}

TEST(splice_at_offsets)
{
	io_of_files = true;
	every_fault(io_scene_moved_at);
}

TEST(many_descriptors)
{
	every_fault(io_scene_polled);
}

TEST(helpers_with_waiters)
{
	every_fault(io_scene_helped);
}

TEST(commands_and_children)
{
	every_fault(io_scene_children);
}

/* ---- what does not pass ---- */

static bool with_ring(void)
{
	const char *io = getenv("UTHREAD_IO");

	return io && !strcmp(io, "uring");
}

static void from_now_on(enum io_call call, int error, uint32_t times)
{
	io_fault.call = call;
	io_fault.error = error;
	io_fault.at = load(&io_calls[call]) + 1;
	store(&io_fault.hits, 0);
	store(&io_fault.times, times);
}

static void *waits_for_ever(void *arg)
{
	char c;
	int p[2];

	CHECK(!pipe(p));
	uthread_read(p[0], &c, 1);
	return arg;
}

static void refused_while_one_waits(enum io_call call, int error)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 1 };

	CHECK_EQ(uthread_init(&c), 0);
	in_uthread(waits, NULL);
	from_now_on(call, error, UINT32_MAX / 2);
	spawn(waits_for_ever, NULL);
	for (;;)
		in_uthread(waits, NULL);
}

TEST_DIES(a_system_call_that_is_refused_later, SIGABRT, "is refused")
{
	/* Both: the one before is what older kernels have. */
	if (with_ring())
		refused_while_one_waits(CALL_RING_ENTER, EPERM);
	io_fault_older = true;
	refused_while_one_waits(CALL_EPOLL_PWAIT2, EPERM);
}

/* As a seccomp filter has it, or a program that closes what is not its own. */
TEST_DIES(a_back_end_that_somebody_closed, SIGABRT,
	  "somebody closed descriptor")
{
	io_fault_older = true; /* where there is no epoll_pwait2() */
	refused_while_one_waits(
		with_ring() ? CALL_RING_ENTER : CALL_EPOLL_PWAIT2, EBADF);
}

/* ---- who is told that it is closed ---- */

static int closed[2], to_be_closed, told, looked;

/* Everybody who can run does. */
static void others_run(int fd)
{
	int i;

	if (fd != to_be_closed)
		return;
	looked++;
	for (i = 0; i < 20; i++)
		uthread_yield();
	CHECK_EQ(told, 0);
}

static void *reads_what_is_closed(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(to_be_closed, &c, 1), -1);
	CHECK_EQ(errno, EBADF);
	told++;
	return arg;
}

static void *polls_what_is_closed(void *arg)
{
	CHECK_EQ(uthread_io_wait(to_be_closed, POLLIN, NULL), -1);
	CHECK_EQ(errno, EBADF);
	told++;
	return arg;
}

static void *closes_it(void *with)
{
	const uint64_t before = parks();
	uthread_t t[3];
	int i;

	CHECK(!pipe(closed));
	to_be_closed = closed[0];
	t[0] = spawn(reads_what_is_closed, NULL);
	t[1] = spawn(polls_what_is_closed, NULL);
	t[2] = spawn(reads_what_is_closed, NULL);
	until_parked(before, 3);
	told = 0;
	io_before_close = others_run;
	if (with)
		CHECK_EQ(dup2(closed[1], to_be_closed), to_be_closed);
	else
		CHECK_EQ(uthread_close(to_be_closed), 0);
	io_before_close = NULL;
	for (i = 0; i < 3; i++)
		joined(t[i]);
	CHECK_EQ(told, 3);
	close(closed[0]);
	close(closed[1]);
	return NULL;
}

/* Who is told before that may use it once more, or close another's. */
TEST(EBADF_is_said_when_it_is_closed)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 1,
				    .spares = -1 };

	CHECK_EQ(uthread_init(&c), 0);
	in_uthread(closes_it, NULL);
	CHECK_EQ(looked, 1);
	in_uthread(closes_it, "another file");
	CHECK_EQ(looked, 2);
}

/* ---- who tries once more when it is closed already ---- */

static int tries_left;

/* Another file has the number when the last one begins, which is no socket. */
static void becomes_a_pipe(int fd)
{
	if (fd == to_be_closed && !--tries_left)
		CHECK_EQ(dup2(closed[1], fd), fd);
}

static void *receives_what_is_closed(void *arg)
{
	char c;
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	CHECK_EQ(uthread_recvmsg(to_be_closed, &m, 0), -1);
	CHECK_EQ(test_errno(), EBADF);
	return arg;
}

static void *is_woken_and_tries(void *arg)
{
	uint64_t before = stats().io_waits;
	int sv[2];
	uthread_t t;

	CHECK(!pipe(closed));
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, sv));
	to_be_closed = sv[0];
	tries_left = 2; /* there is nothing; then there is */
	io_before_recvmsg = becomes_a_pipe;
	t = spawn(receives_what_is_closed, NULL);
	while (stats().io_waits == before)
		uthread_yield();
	CHECK_EQ(send(sv[1], "x", 1, 0), 1);
	joined(t);
	CHECK_EQ(tries_left, 0);
	io_before_recvmsg = NULL;
	return arg;
}

/* The next file says that it is no socket, which is nobody's business. */
TEST(EBADF_is_said_though_the_next_file_says_no)
{
	start_workers(1);
	in_uthread(is_woken_and_tries, NULL);
}

/* ---- a number that is closed once ---- */

static bool opened;

/* Another thread opens a file: it has the number, if that is free. */
static void opens(void)
{
	if (fcntl(to_be_closed, F_GETFD) >= 0)
		return;
	CHECK_EQ(fcntl(closed[1], F_DUPFD, to_be_closed), to_be_closed);
	opened = true;
}

static void *closes_a_range(void *arg)
{
	const uint64_t before = parks();
	uthread_t t;

	CHECK(!pipe(closed));
	to_be_closed = closed[0];
	t = spawn(reads_what_is_closed, NULL);
	until_parked(before, 1);
	io_before_close_range = opens;
	CHECK_EQ(close_range((unsigned)to_be_closed, (unsigned)to_be_closed, 0),
		 0);
	io_before_close_range = NULL;
	joined(t);
	CHECK_EQ(fcntl(to_be_closed, F_GETFD) >= 0, opened);
	return arg;
}

/* Or what has it next is closed as well. */
TEST(a_range_closes_each_number_once)
{
	start_workers(1);
	in_uthread(closes_a_range, NULL);
}

/* ---- who sleeps in the ring ---- */

/* The kernel does not take the request that wakes it, once. Who wakes tells the kernel
 * again, for who sleeps cannot. */
TEST(a_sleeper_is_woken_though_the_kernel_is_short_of_memory)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 1,
				    .main = UTHREAD_MAIN_PTHREAD };
	uint32_t before;
	uthread_t t;

	if (!with_ring())
		SKIP("of a ring");
	CHECK_EQ(uthread_init(&c), 0);
	spawn(waits_for_ever, NULL);
	do {
		usleep(1000); /* it goes to sleep, mostly */
		from_now_on(CALL_RING_ENTER, EAGAIN, 1);
		before = io_ring_enters_here;
		t = spawn(nothing, NULL);
		before = io_ring_enters_here - before;
		joined(t);
	} while (before < 2);
}

/* ---- who asks for nothing any more ---- */

#define QUEUED 1024 /* requests, of ring.c */

static void *reads_until_closed(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), -1);
	CHECK_EQ(test_errno(), EBADF);
	return arg;
}

/* Each leaves two requests in the queue: to look, and not to. */
static void *fills_the_queue(void *arg)
{
	struct timespec over = test_in(0);
	int p[2], i;
	char c;

	CHECK(!pipe(p));
	for (i = 0; i < QUEUED; i++) {
		CHECK_EQ(uthread_read_timed(p[0], &c, 1, &over), -1);
		CHECK_EQ(test_errno(), ETIMEDOUT);
	}
	close(p[0]);
	close(p[1]);
	return arg;
}

/*
 * The kernel takes no requests for a while, the queue is full, and who waits for a
 * descriptor is told that it is closed: then the kernel is still asked for it, and has
 * the file. Once it takes requests it must be told, or the other side waits for ever.
 */
static void *closes_beside_a_full_queue(void *arg)
{
	struct uthread_stats before = stats();
	uthread_t t;
	int sv[2];
	char c;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	t = spawn(reads_until_closed, &sv[0]);
	while (stats().io_waits == before.io_waits ||
	       (with_ring() && stats().io_requests == before.io_requests))
		uthread_yield();
	from_now_on(CALL_RING_ENTER, EAGAIN, UINT32_MAX / 2);
	fills_the_queue(NULL);
	CHECK_EQ(uthread_close(sv[0]), 0);
	joined(t);
	store(&io_fault.times, 0);
	CHECK_EQ(uthread_read(sv[1], &c, 1), 0);
	CHECK_EQ(uthread_close(sv[1]), 0);
	return arg;
}

TEST(what_is_closed_beside_a_full_queue_is_gone)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 1 };

	CHECK_EQ(uthread_init(&c), 0);
	in_uthread(closes_beside_a_full_queue, NULL);
}

TEST_MAIN()
