/* SPDX-License-Identifier: Apache-2.0 */
/* test_io_files.c - files, names, children: calls that helpers make, and
 * cancellation of all that waits. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "util.h"

#define BIG (1 << 20)

static int temporary(void)
{
	char path[] = "/tmp/uthread-io-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	CHECK(!unlink(path));
	return fd;
}

static void *at_offsets(void *arg)
{
	char *buf = malloc(BIG), *back = malloc(BIG);
	int fd = temporary(), i;

	for (i = 0; i < BIG; i++)
		buf[i] = (char)(i * 7 >> 2);
	CHECK_EQ(uthread_pwrite(fd, buf, BIG, 4096), BIG);
	CHECK_EQ(uthread_fsync(fd), 0);
	CHECK_EQ(uthread_fdatasync(fd), 0);
	CHECK(!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	CHECK_EQ(uthread_pread(fd, back, BIG, 4096), BIG);
	CHECK(!memcmp(buf, back, BIG));
	CHECK_EQ(uthread_pread(fd, back, BIG, 4096 + BIG - 10), 10);
	CHECK_EQ(uthread_pread(fd, back, BIG, 4096 + BIG), 0);
	CHECK_EQ(lseek(fd, 0, SEEK_CUR), 0);
	CHECK_EQ(uthread_pread(fd, back, 1, -1), -1);
	CHECK_EQ(test_errno(), EINVAL);
	CHECK_EQ(uthread_close(fd), 0);
	CHECK_EQ(uthread_fsync(-1), -1);
	CHECK_EQ(test_errno(), EBADF);
	free(buf);
	free(back);
	return arg;
}

TEST(files_at_offsets)
{
	start_workers(1);
	crowd(20, 2, at_offsets, NULL);
}

/* ---- opening ---- */

static char fifo[64];

static void *opens_to_read(void *arg)
{
	int fd = uthread_openat(AT_FDCWD, fifo, O_RDONLY);
	char c;

	CHECK(fd >= 0);
	CHECK_EQ(uthread_read(fd, &c, 1), 1);
	CHECK_EQ(uthread_read(fd, &c, 1), 0);
	CHECK_EQ(uthread_close(fd), 0);
	return arg;
}

/* Each end waits for the other. */
static void *both_ends(void *arg)
{
	uthread_t t = spawn(opens_to_read, NULL);
	int fd;

	uthread_sleep(MS);
	fd = uthread_openat(AT_FDCWD, fifo, O_WRONLY);
	CHECK(fd >= 0);
	CHECK_EQ(uthread_write(fd, "x", 1), 1);
	CHECK_EQ(uthread_close(fd), 0);
	joined(t);
	return arg;
}

static void make_fifo(void)
{
	snprintf(fifo, sizeof(fifo), "/tmp/uthread-fifo-%d", (int)getpid());
	CHECK(!mkfifo(fifo, 0600));
}

TEST(opening_waits_without_a_worker)
{
	make_fifo();
	start_workers(1);
	in_uthread(both_ends, NULL);
	unlink(fifo);
}

/* Each waits for one that comes behind it, when helpers are made and when one is
 * idle; it does not end where a job is left to a helper that has another. */
#define PAIRS 20

static char fifos[PAIRS][sizeof(fifo)];

static void *opens_an_end(void *arg)
{
	const intptr_t i = (intptr_t)arg;
	int fd = uthread_openat(AT_FDCWD, fifos[i % PAIRS],
				i < PAIRS ? O_RDONLY : O_WRONLY);

	CHECK(fd >= 0);
	CHECK_EQ(uthread_close(fd), 0);
	return NULL;
}

static void open_pairs(int n)
{
	uthread_t t[2 * PAIRS];
	int k = 0;

	for (intptr_t i = 0; i < 2 * PAIRS; i++)
		if (i % PAIRS < n)
			t[k++] = spawn(opens_an_end, (void *)i);
	while (k)
		joined(t[--k]);
}

static void *all_ends(void *arg)
{
	if (arg)
		open_pairs(PAIRS);
	CHECK_EQ(uthread_close(uthread_openat(AT_FDCWD, "/", O_RDONLY)), 0);
	uthread_sleep(5 * MS); /* that helper is idle, most likely */
	open_pairs(1);
	return arg;
}

static void fifo_pairs(void *all)
{
	for (int i = 0; i < PAIRS; i++) {
		snprintf(fifos[i], sizeof(fifos[i]), "/tmp/uthread-fifo-%d-%d",
			 (int)getpid(), i);
		CHECK(!mkfifo(fifos[i], 0600));
	}
	start_workers(1);
	in_uthread(all_ends, all);
	for (int i = 0; i < PAIRS; i++)
		unlink(fifos[i]);
}

TEST(who_opens_waits_for_who_opens_later)
{
	fifo_pairs(fifos);
}

TEST(who_opens_does_not_keep_the_idle_helper_from_others)
{
	fifo_pairs(NULL);
}

static void *makes_a_file(void *arg)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/tmp/uthread-open-%d", (int)getpid());
	fd = uthread_openat(AT_FDCWD, path, O_CREAT | O_EXCL | O_RDWR, 0640);
	CHECK(fd >= 0);
	CHECK(!fstat(fd, &st));
	CHECK_EQ(st.st_mode & 0777, 0640);
	uthread_close(fd);
	CHECK_EQ(uthread_openat(AT_FDCWD, path, O_CREAT | O_EXCL, 0600), -1);
	CHECK_EQ(test_errno(), EEXIST);
	unlink(path);
	CHECK_EQ(uthread_openat(AT_FDCWD, path, O_RDONLY), -1);
	CHECK_EQ(test_errno(), ENOENT);
	return arg;
}

TEST(openat_makes_files)
{
	umask(0);
	start_workers(1);
	in_uthread(makes_a_file, NULL);
}

/* ---- from one to the other ---- */

struct sink {
	int fd;
	size_t all;
};

static void *swallows(void *arg)
{
	struct sink *s = arg;
	char buf[5000];
	ssize_t n;

	while ((n = uthread_read(s->fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			CHECK_EQ(buf[i], (char)((s->all + (size_t)i) * 7 >> 2));
		s->all += (size_t)n;
	}
	CHECK_EQ(n, 0);
	CHECK_EQ(uthread_close(s->fd), 0);
	return NULL;
}

static void *moves(void *arg)
{
	char *buf = malloc(BIG);
	int fd = temporary(), sv[2], p[2], i;
	struct sink s = { 0 };
	off_t at = 0;
	ssize_t n, all = 0;
	uthread_t t;

	for (i = 0; i < BIG; i++)
		buf[i] = (char)(i * 7 >> 2);
	CHECK_EQ(uthread_pwrite(fd, buf, BIG, 0), BIG);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	s.fd = sv[1];
	t = spawn(swallows, &s);
	CHECK_EQ(uthread_sendfile(sv[0], fd, &at, BIG + 5), BIG);
	CHECK_EQ(at, BIG);
	uthread_close(sv[0]);
	joined(t);
	CHECK_EQ(s.all, BIG);
	/* Into a pipe, and out of it. */
	CHECK(!pipe(p));
	s.all = 0;
	s.fd = p[0];
	t = spawn(swallows, &s);
	at = 0;
	while ((n = uthread_splice(fd, &at, p[1], NULL, BIG, 0)) > 0)
		all += n;
	CHECK_EQ(n, 0);
	CHECK_EQ(all, BIG);
	uthread_close(p[1]);
	joined(t);
	CHECK_EQ(s.all, BIG);
	uthread_close(fd);
	free(buf);
	return arg;
}

TEST(sendfile_and_splice)
{
	start_workers(1);
	in_uthread(moves, NULL);
}

/* What the kernel refuses is refused at once, though nothing is there to be moved:
 * each of these would wait for ever. */
static void *moves_nonsense(void *arg)
{
	char name[] = "/tmp/uthread-append-XXXXXX";
	int p[2], q[2], sv[2], file = temporary(), appends = mkstemp(name);
	off_t at = 0;

	CHECK(appends >= 0 && !unlink(name));
	CHECK(!fcntl(appends, F_SETFL, O_APPEND));
	CHECK(!pipe(p) && !pipe(q));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));

#define REFUSED(call, err)            \
	do {                          \
		errno = 0;            \
		CHECK_EQ(call, -1);   \
		CHECK_EQ(errno, err); \
	} while (0)
	REFUSED(uthread_splice(p[0], &at, q[1], NULL, 9, 0), ESPIPE);
	REFUSED(uthread_splice(p[0], NULL, q[1], &at, 9, 0), ESPIPE);
	REFUSED(uthread_splice(p[0], NULL, p[1], NULL, 9, 0), EINVAL);
	REFUSED(uthread_splice(p[0], NULL, q[1], NULL, 9, 1 << 20), EINVAL);
	REFUSED(uthread_splice(p[0], NULL, q[0], NULL, 9, 0), EBADF);
	REFUSED(uthread_splice(p[0], NULL, appends, NULL, 9, 0), EINVAL);
	REFUSED(uthread_splice(p[0], NULL, sv[1], &at, 9, 0), EINVAL);
	REFUSED(uthread_splice(sv[0], &at, p[1], NULL, 9, 0), EINVAL);
	REFUSED(uthread_splice(sv[0], NULL, sv[1], NULL, 9, 0), EINVAL);
	REFUSED(uthread_sendfile(file, p[1], NULL, 9), EBADF);
	REFUSED(uthread_sendfile(p[0], sv[0], NULL, 9), EBADF);
#undef REFUSED
	CHECK_EQ(at, 0);
	return arg;
}

TEST(what_splice_refuses_is_not_waited_for)
{
	start_workers(1);
	in_uthread(moves_nonsense, NULL);
}

/* ---- names ---- */

static void *names(void *arg)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST,
				  .ai_family = AF_INET,
				  .ai_socktype = SOCK_STREAM },
			*found = NULL;
	struct sockaddr_in *in;

	CHECK_EQ(uthread_getaddrinfo("127.0.0.1", "80", &hints, &found), 0);
	in = (struct sockaddr_in *)(void *)found->ai_addr;
	CHECK_EQ(in->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	CHECK_EQ(in->sin_port, htons(80));
	freeaddrinfo(found);
	CHECK_EQ(uthread_getaddrinfo("no number", NULL, &hints, &found),
		 EAI_NONAME);
	return arg;
}

TEST(names_are_looked_up)
{
	start_workers(1);
	crowd(100, 1, names, NULL);
}

/* ---- children ---- */

static pid_t child(int status, int fd)
{
	pid_t pid = fork();
	char c;

	if (pid)
		return pid;
	if (fd >= 0 && read(fd, &c, 1) < 0)
		status = 99;
	_exit(status);
}

static void *lets_go(void *arg)
{
	uthread_sleep(2 * MS);
	CHECK_EQ(write(*(int *)arg, "x", 1), 1);
	return NULL;
}

static void *waits_for(void *arg)
{
	const int any = arg != NULL;
	struct timespec soon = test_in(3 * MS);
	int p[2], status = 0;
	uthread_t t;
	pid_t pid;

	CHECK(!pipe(p));
	pid = child(7, p[0]);
	CHECK_EQ(uthread_waitpid(pid, &status, WNOHANG), 0);
	CHECK_EQ(uthread_waitpid_timed(any ? -1 : pid, &status, 0, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	t = spawn(lets_go, &p[1]);
	CHECK_EQ(uthread_waitpid(any ? -1 : pid, &status, 0), pid);
	CHECK_EQ(WEXITSTATUS(status), 7);
	joined(t);
	CHECK_EQ(uthread_waitpid(any ? -1 : pid, &status, 0), -1);
	CHECK_EQ(test_errno(), ECHILD);
	uthread_close(p[0]);
	uthread_close(p[1]);
	return NULL;
}

TEST(waiting_for_a_child)
{
	start_workers(1);
	in_uthread(waits_for, NULL);
}

TEST(waiting_for_any_child)
{
	start_workers(1);
	in_uthread(waits_for, (void *)1);
}

static void *commands(void *arg)
{
	char buf[64];
	FILE *f;

	CHECK_EQ(WEXITSTATUS(uthread_system("exit 3")), 3);
	CHECK_EQ(WTERMSIG(uthread_system("kill -9 $$")), 9);
	CHECK(uthread_system(NULL));
	f = uthread_popen("echo hello; exit 4", "r");
	CHECK(f);
	CHECK_EQ(uthread_read(fileno(f), buf, sizeof(buf)), 6);
	CHECK_EQ(WEXITSTATUS(uthread_pclose(f)), 4);
	f = uthread_popen("read x; test \"$x\" = bye", "w");
	CHECK(f);
	CHECK(fputs("bye\n", f) >= 0);
	CHECK_EQ(uthread_pclose(f), 0);
	CHECK(!uthread_popen("true", "x"));
	CHECK_EQ(test_errno(), EINVAL);
	return arg;
}

TEST(commands_are_run)
{
	struct sigaction sa, before;

	start_workers(1);
	/* A shell's background commands ignore it. */
	CHECK(!sigaction(SIGINT, NULL, &before));
	crowd(4, 0, commands, NULL);
	CHECK(!sigaction(SIGINT, NULL, &sa));
	CHECK(sa.sa_handler == before.sa_handler);
}

/* ---- cancellation ---- */

static int quiet[2], full[2];

static void *reads(void *arg)
{
	char c;

	uthread_read(quiet[0], &c, 1);
	return arg;
}

static void *writes(void *arg)
{
	char c[65536] = { 0 };

	while (uthread_write(full[1], c, sizeof(c)) >= 0)
		;
	return arg;
}

static void *polls(void *arg)
{
	struct pollfd p[20];
	int i;

	for (i = 0; i < 20; i++)
		p[i] = (struct pollfd){ .fd = quiet[0], .events = POLLIN };
	uthread_poll(p, 20, -1);
	return arg;
}

static void *opens(void *arg)
{
	uthread_openat(AT_FDCWD, fifo, O_RDONLY);
	return arg;
}

static void *waits_child(void *arg)
{
	uthread_waitpid((pid_t)(intptr_t)arg, NULL, 0);
	return arg;
}

static void *waits_any_child(void *arg)
{
	uthread_waitpid(-1, NULL, 0);
	return arg;
}

static void *runs_long(void *arg)
{
	uthread_system("exec sleep 1000");
	return arg;
}

static void *cancels(void *arg)
{
	void *(*const fns[])(void *) = { reads,	   writes,	polls,
					 opens,	   waits_child, waits_any_child,
					 runs_long };
	char c[65536] = { 0 };
	pid_t pid;
	int hold[2];
	uthread_t t;
	uint64_t before;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, quiet));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, full));
	CHECK(!pipe(hold));
	pid = child(0, hold[0]);
	while (send(full[1], c, sizeof(c), MSG_DONTWAIT) > 0)
		;
	for (size_t i = 0; i < sizeof(fns) / sizeof(fns[0]); i++) {
		/* While it waits, and before it could. */
		before = parks();
		t = spawn(fns[i], (void *)(intptr_t)pid);
		while (parks() < before + 2)
			uthread_sleep(MS / 4);
		CHECK_EQ(uthread_cancel(t), 0);
		CHECK(joined(t) == UTHREAD_CANCELED);
		t = spawn(fns[i], (void *)(intptr_t)pid);
		CHECK_EQ(uthread_cancel(t), 0);
		CHECK(joined(t) == UTHREAD_CANCELED);
	}
	CHECK_EQ(write(hold[1], "x", 1), 1);
	CHECK_EQ(uthread_waitpid(pid, NULL, 0), pid);
	return arg;
}

TEST(each_wait_is_a_point_of_cancellation)
{
	make_fifo();
	start_workers(2);
	in_uthread(cancels, NULL);
	unlink(fifo);
}

/* ---- deadlines ---- */

#define PAST ((struct timespec){ 0, 0 })

static void *moves_in_time(void *arg)
{
	struct timespec soon = test_in(2 * MS), past = PAST,
			bad = { 0, 1000000000 };
	char buf[8192] = { 0 };
	const int file = temporary();
	int p[2], sv[2];
	ssize_t n, all = 0;

	CHECK(!pipe(p));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	CHECK(!ftruncate(file, BIG));
	/* Nothing to take, */
	CHECK_EQ(uthread_splice_timed(p[0], NULL, sv[0], NULL, 1, 0, &soon),
		 -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK_EQ(uthread_splice_timed(p[0], NULL, sv[0], NULL, 1, 0, &bad), -1);
	CHECK_EQ(test_errno(), EINVAL);
	/* and something, though it is late. */
	CHECK_EQ(write(p[1], "abc", 3), 3);
	CHECK_EQ(uthread_splice_timed(p[0], NULL, sv[0], NULL, 9, 0, &past), 3);
	CHECK_EQ(read(sv[1], buf, sizeof(buf)), 3);
	/* No room: what has gone is said, then nothing goes. */
	soon = test_in(2 * MS);
	n = uthread_sendfile_timed(sv[0], file, NULL, BIG, &soon);
	CHECK(n > 0 && n < BIG);
	soon = test_in(2 * MS);
	CHECK_EQ(uthread_sendfile_timed(sv[0], file, NULL, BIG, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK_EQ(uthread_sendfile_timed(sv[0], file, NULL, BIG, &bad), -1);
	CHECK_EQ(test_errno(), EINVAL);
	CHECK_EQ(lseek(file, 0, SEEK_CUR), n);
	while (all < n) {
		const ssize_t got = read(sv[1], buf, sizeof(buf));

		CHECK(got > 0);
		all += got;
	}
	CHECK_EQ(all, n);
	CHECK_EQ(uthread_sendfile_timed(sv[0], file, NULL, 100, &past), 100);
	close(file);
	close(p[0]);
	close(p[1]);
	close(sv[0]);
	close(sv[1]);
	return arg;
}

TEST(moving_has_deadlines)
{
	start_workers(1);
	crowd(5, 1, moves_in_time, NULL);
}

static int descriptors(void)
{
	int n = 0, fd;

	for (fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void *opens_in_time(void *arg)
{
	struct timespec soon = test_in(2 * MS), bad = { 0, -1 };
	const int before = *(int *)arg;
	char path[64];
	struct stat st;
	int fd;

	CHECK_EQ(uthread_openat_timed(AT_FDCWD, fifo, O_RDONLY, 0, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK_EQ(uthread_openat_timed(AT_FDCWD, fifo, O_RDONLY, 0, &bad), -1);
	CHECK_EQ(test_errno(), EINVAL);
	/* It is opened now, and closed again. */
	fd = open(fifo, O_RDWR);
	CHECK(fd >= 0);
	CHECK(!close(fd));
	while (descriptors() != before)
		let_others();
	snprintf(path, sizeof(path), "/tmp/uthread-made-%d", (int)getpid());
	soon = test_in(100000 * MS);
	fd = uthread_openat_timed(AT_FDCWD, path, O_CREAT | O_EXCL | O_RDWR,
				  0640, &soon);
	CHECK(fd >= 0);
	CHECK(!fstat(fd, &st) && (st.st_mode & 0777 & ~0027u) == 0640);
	CHECK(!unlink(path));
	CHECK(!uthread_close(fd));
	return arg;
}

TEST(opening_has_a_deadline)
{
	int before;

	make_fifo();
	/* Not in between: a helper may be late, and have one just then. */
	before = descriptors();
	start_workers(1);
	in_uthread(opens_in_time, &before);
	in_pthread(opens_in_time, &before);
	unlink(fifo);
}

/* ---- who gives back what it has ---- */

static int has_waited;

static void *gives_back(void *arg)
{
	int p[2];
	FILE *f;

	CHECK(!pipe(p));
	f = uthread_popen("read x; exit 5", "w");
	CHECK(f);
	CHECK_EQ(uthread_cancel(uthread_self()), 0);
	CHECK_EQ(uthread_close(p[0]), 0);
	CHECK_EQ(uthread_close(p[1]), 0);
	CHECK(fcntl(p[0], F_GETFD) < 0 && fcntl(p[1], F_GETFD) < 0);
	CHECK_EQ(WEXITSTATUS(uthread_pclose(f)), 5);
	uthread_testcancel();
	CHECK(!"cancelled");
	return arg;
}

static void *waits_for_its_command(void *arg)
{
	FILE *f = uthread_popen("read x < /dev/fd/9; exit 6", "w");

	CHECK(f);
	store(&has_waited, 1);
	CHECK_EQ(WEXITSTATUS(uthread_pclose(f)), 6);
	store(&has_waited, 2);
	uthread_testcancel();
	CHECK(!"cancelled");
	return arg;
}

static void *cancels_who_gives_back(void *arg)
{
	uint64_t before;
	uthread_t t;
	int p[2], i;

	CHECK(joined(spawn(gives_back, NULL)) == UTHREAD_CANCELED);
	/* The command ends when it is told to. */
	CHECK(!pipe(p));
	CHECK_EQ(dup2(p[0], 9), 9);
	before = parks();
	t = spawn(waits_for_its_command, NULL);
	while (!load(&has_waited) || parks() == before)
		uthread_yield();
	CHECK_EQ(uthread_cancel(t), 0);
	for (i = 0; i < 5; i++)
		uthread_sleep(MS);
	CHECK_EQ(load(&has_waited), 1);
	CHECK_EQ(write(p[1], "\n", 1), 1);
	CHECK(joined(t) == UTHREAD_CANCELED);
	CHECK_EQ(load(&has_waited), 2);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
	CHECK_EQ(test_errno(), ECHILD);
	return arg;
}

TEST(who_gives_back_what_it_has_is_not_cancelled)
{
	start_workers(2);
	in_uthread(cancels_who_gives_back, NULL);
}

TEST_MAIN()
