/* SPDX-License-Identifier: Apache-2.0 */
/* test_io_limits.c - no room on the disk, a limit of the size of files, more
 * connections than descriptors: each is told, and it goes on when there is room. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "util.h"

static char folder[] = "/tmp/uthread-limits-XXXXXX";
static char path[64];

static void make_folder(void)
{
	CHECK(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
}

static void remove_folder(void)
{
	unlink(path);
	CHECK(!rmdir(folder));
}

/* ---- no room ---- */

static void *writes_to_full(void *arg)
{
	char buf[100] = "";
	struct iovec v[2] = { { buf, 50 }, { buf, 50 } };
	int fd = (int)uthread_openat(AT_FDCWD, "/dev/full", O_RDWR), i;

	CHECK(fd >= 0);
	for (i = 0; i < 5; i++) {
		CHECK_EQ(uthread_write(fd, buf, sizeof(buf)), -1);
		CHECK_EQ(test_errno(), ENOSPC);
		CHECK_EQ(uthread_writev(fd, v, 2), -1);
		CHECK_EQ(test_errno(), ENOSPC);
		CHECK_EQ(uthread_pwrite(fd, buf, sizeof(buf), 3), -1);
		CHECK_EQ(test_errno(), ENOSPC);
		CHECK_EQ(uthread_read(fd, buf, sizeof(buf)), sizeof(buf));
	}
	CHECK_EQ(uthread_close(fd), 0);
	return arg;
}

TEST(a_full_device)
{
	start_workers(2);
	crowd(4, 1, writes_to_full, NULL);
}

#define LIMIT 100000
#define MORE 30000

/* A part, then why no more. */
static void *writes_beyond(void *arg)
{
	static char buf[LIMIT + MORE];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), p[2];

	CHECK(fd >= 0);
	CHECK_EQ(uthread_write(fd, buf, sizeof(buf)), LIMIT);
	CHECK_EQ(uthread_write(fd, buf, 1), -1);
	CHECK_EQ(test_errno(), EFBIG);
	CHECK_EQ(uthread_pwrite(fd, buf, 2 * MORE, LIMIT - MORE), MORE);
	CHECK_EQ(uthread_pwrite(fd, buf, 1, LIMIT), -1);
	CHECK_EQ(test_errno(), EFBIG);
	CHECK(!pipe(p));
	CHECK_EQ(uthread_write(p[1], buf, 100), 100);
	CHECK_EQ(uthread_splice(p[0], NULL, fd, NULL, 100, 0), -1);
	CHECK_EQ(test_errno(), EFBIG);
	/* What could not be moved is there still. */
	CHECK_EQ(uthread_read(p[0], buf, sizeof(buf)), 100);
	CHECK_EQ(lseek(fd, 0, SEEK_END), LIMIT);
	close(p[0]);
	close(p[1]);
	CHECK_EQ(uthread_close(fd), 0);
	return arg;
}

TEST(a_limit_of_the_size_of_files)
{
	const struct rlimit r = { .rlim_cur = LIMIT, .rlim_max = LIMIT };

	make_folder();
	signal(SIGXFSZ, SIG_IGN);
	CHECK(!setrlimit(RLIMIT_FSIZE, &r));
	start_workers(1);
	in_uthread(writes_beyond, NULL);
	remove_folder();
}

#define FILES 8
#define FILE_BYTES 12000 /* all of them go onto it, but not beside the stone */
#define DISK "size=128k"
#define STONE 110000

static uint32_t full;

/* Each into a file of its own, until there is no room. */
static void *fills_disk(void *arg)
{
	char name[80], buf[FILE_BYTES];
	size_t done = 0;
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "%s/%d", folder, (int)(intptr_t)arg);
	fd = (int)uthread_openat(AT_FDCWD, name, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	memset(buf, 'x', sizeof(buf));
	while (done < sizeof(buf)) {
		n = uthread_write(fd, buf + done, sizeof(buf) - done);
		if (n > 0) {
			done += (size_t)n;
			CHECK_EQ(uthread_fsync(fd), 0);
			continue;
		}
		CHECK_EQ(n, -1);
		CHECK_EQ(test_errno(), ENOSPC);
		/* What was said to be written is. */
		CHECK(!fstat(fd, &st));
		CHECK_EQ(st.st_size, done);
		add(&full, 1);
		/* Somebody makes room, and it goes on. */
		snprintf(name, sizeof(name), "%s/stone", folder);
		unlink(name);
		uthread_yield();
	}
	CHECK_EQ(uthread_pread(fd, buf, sizeof(buf), 0), sizeof(buf));
	for (size_t i = 0; i < sizeof(buf); i++)
		CHECK_EQ(buf[i], 'x');
	CHECK_EQ(uthread_close(fd), 0);
	return NULL;
}

static void mount_small_disk(void)
{
	if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		goto none;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", folder, "tmpfs", 0, DISK))
		goto none;
	return;
none:
	remove_folder();
	SKIP("no file system can be mounted here");
}

TEST(a_full_disk)
{
	uthread_t t[FILES];
	char name[80];
	int fd, i;

	make_folder();
	mount_small_disk();
	snprintf(name, sizeof(name), "%s/stone", folder);
	fd = open(name, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0 && !posix_fallocate(fd, 0, STONE));
	close(fd);
	start_workers(2);
	for (i = 0; i < FILES; i++)
		t[i] = spawn(fills_disk, (void *)(intptr_t)i);
	for (i = 0; i < FILES; i++)
		joined(t[i]);
	CHECK(load(&full) >= 1);
	CHECK(!umount2(folder, MNT_DETACH));
	remove_folder();
}

/* ---- more connections than descriptors ---- */

#define CONNECTIONS SCALE(10000)
#define DESCRIPTORS 200

static int listener;
static uint32_t served, left, refused;
static int go[2]; /* a pipe: all are accepted */

/* A client's end: all connect, and only then look what they got. */
static void be_clients(const struct sockaddr_un *at, socklen_t room)
{
	int *fds = calloc(CONNECTIONS, sizeof(*fds)), i;
	char c;

	CHECK(fds);
	for (i = 0; i < CONNECTIONS; i++) {
		fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		CHECK(fds[i] >= 0);
		CHECK(!connect(fds[i], (const struct sockaddr *)at, room));
	}
	CHECK_EQ(read(go[0], &c, 1), 1);
	for (i = 0; i < CONNECTIONS; i++) {
		CHECK_EQ(read(fds[i], &c, 1), 1);
		CHECK_EQ(c, 'y');
		CHECK(!shutdown(fds[i], SHUT_WR));
		CHECK_EQ(read(fds[i], &c, 1), 0);
		close(fds[i]);
	}
	_exit(0);
}

static void *serves(void *arg)
{
	const int fd = (int)(intptr_t)arg;
	char c;

	CHECK_EQ(uthread_write(fd, "y", 1), 1);
	add(&served, 1);
	CHECK_EQ(uthread_read(fd, &c, 1), 0);
	CHECK_EQ(uthread_close(fd), 0);
	add(&left, 1);
	return NULL;
}

/* At the limit the one who has been there for longest has to go. */
static void *accepts_all(void *arg)
{
	static int fds[SCALE(10000)];
	struct timespec soon = test_in(20 * MS);
	int n = 0, oldest = 0, fd;
	uthread_t t;

	/* While there are descriptors left: of what the runtime needs for itself,
	 * too, without which each who waits looks now and then. */
	CHECK_EQ(uthread_io_wait(go[0], POLLIN, &soon), -1);
	while (n < CONNECTIONS) {
		fd = uthread_accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0) {
			CHECK_EQ(test_errno(), EMFILE);
			add(&refused, 1);
			CHECK(oldest < n);
			CHECK(!shutdown(fds[oldest++], SHUT_RD));
			while (load(&left) < (uint32_t)oldest)
				uthread_yield();
			continue;
		}
		fds[n++] = fd;
		t = spawn(serves, (void *)(intptr_t)fd);
		CHECK_EQ(uthread_detach(t), 0);
	}
	return arg;
}

TEST(more_connections_than_descriptors)
{
	/* Not TCP: what does not fit into its queue is dropped, and tried again
	 * after seconds. */
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t room = sizeof(at);
	struct rlimit r;
	pid_t pid;

	CHECK(!getrlimit(RLIMIT_NOFILE, &r));
	r.rlim_cur = r.rlim_max;
	if (r.rlim_max < CONNECTIONS + 100 || setrlimit(RLIMIT_NOFILE, &r))
		SKIP("too few descriptors for the clients (ulimit -Hn)");
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(listener >= 0);
	CHECK(!bind(listener, (struct sockaddr *)&at, sizeof(at.sun_family)));
	CHECK(!listen(listener, SOMAXCONN));
	CHECK(!getsockname(listener, (struct sockaddr *)&at, &room));
	CHECK(!pipe(go));
	pid = fork();
	if (!pid)
		be_clients(&at, room);
	r.rlim_cur = DESCRIPTORS;
	CHECK(!setrlimit(RLIMIT_NOFILE, &r));
	start_workers(2);
	in_uthread(accepts_all, NULL);
	CHECK_EQ(write(go[1], "", 1), 1);
	ended_with(pid, 0);
	CHECK_EQ(load(&served), CONNECTIONS);
	CHECK(load(&refused) >= (uint32_t)(CONNECTIONS - DESCRIPTORS));
}

TEST_MAIN()
