/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_points_entry.c - calls that act on a cancellation which is pending when they
 * begin, though they would not sleep: before they have done anything.
 */
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>

#include "points.h"

static char path[64], page[4096] __attribute__((aligned(4096)));
static int fd, pair[2];
static struct iovec part = { &byte, 1 };
static const struct timespec now, moment = { .tv_nsec = 1 };
static sem_t *sem;

/* Each does what it is to do at once. */
static void in_open(void)
{
	open(path, O_RDWR);
}

static void in_open_creat(void)
{
	open(path, O_RDWR | O_CREAT, 0600);
}

static void in_open64(void)
{
	open64(path, O_RDWR);
}

static void in_openat(void)
{
	openat(AT_FDCWD, path, O_RDWR);
}

static void in_openat64(void)
{
	openat64(AT_FDCWD, path, O_RDWR | O_CREAT, 0600);
}

static void in_creat(void)
{
	creat(path, 0600);
}

static void in_close(void)
{
	close(fd);
}

static void in_read(void)
{
	IS(read(fd, &byte, 1), 1);
}

static void in_readv(void)
{
	IS(readv(fd, &part, 1), 1);
}

static void in_write(void)
{
	IS(write(fd, &byte, 1), 1);
}

static void in_writev(void)
{
	IS(writev(fd, &part, 1), 1);
}

static void in_pread(void)
{
	IS(pread(fd, &byte, 1, 0), 1);
}

static void in_pread64(void)
{
	IS(pread64(fd, &byte, 1, 0), 1);
}

static void in_pwrite(void)
{
	IS(pwrite(fd, &byte, 1, 0), 1);
}

static void in_pwrite64(void)
{
	IS(pwrite64(fd, &byte, 1, 0), 1);
}

static void in_preadv(void)
{
	IS(preadv(fd, &part, 1, 0), 1);
}

static void in_pwritev(void)
{
	IS(pwritev(fd, &part, 1, 0), 1);
}

static void in_preadv2(void)
{
	IS(preadv2(fd, &part, 1, 0, 0), 1);
}

static void in_pwritev2(void)
{
	IS(pwritev2(fd, &part, 1, 0, 0), 1);
}

static void in_fsync(void)
{
	IS(fsync(fd), 0);
}

static void in_fdatasync(void)
{
	IS(fdatasync(fd), 0);
}

static void in_msync(void)
{
	IS(msync(page, sizeof(page), MS_ASYNC), 0);
}

static void in_fallocate(void)
{
	fallocate(fd, 0, 0, 1);
}

static void in_sync_file_range(void)
{
	sync_file_range(fd, 0, 1, 0);
}

static void in_copy_file_range(void)
{
	copy_file_range(fd, NULL, fd, NULL, 0, 0);
}

static void in_splice(void)
{
	splice(-1, NULL, -1, NULL, 1, 0);
}

static void in_vmsplice(void)
{
	vmsplice(-1, &part, 1, 0);
}

static void in_tee(void)
{
	tee(-1, -1, 1, 0);
}

static void in_tcdrain(void)
{
	tcdrain(fd);
}

static void in_getrandom(void)
{
	getrandom(&byte, 1, 0);
}

static void in_setlkw(void)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	fcntl(fd, F_SETLKW, &l);
}

static void in_lockf(void)
{
	lockf(fd, F_LOCK, 0);
}

/* Of no queue: it says so, or is cancelled. */
static void in_mq_send(void)
{
	mq_send((mqd_t)-1, &byte, 1, 0);
}

static void in_mq_timedsend(void)
{
	mq_timedsend((mqd_t)-1, &byte, 1, 0, &now);
}

static void in_mq_receive(void)
{
	mq_receive((mqd_t)-1, &byte, 1, NULL);
}

static void in_mq_timedreceive(void)
{
	mq_timedreceive((mqd_t)-1, &byte, 1, NULL, &now);
}

static void in_msgsnd(void)
{
	msgsnd(-1, page, 1, IPC_NOWAIT);
}

static void in_msgrcv(void)
{
	msgrcv(-1, page, 1, 0, IPC_NOWAIT);
}

static void in_send(void)
{
	IS(send(pair[0], &byte, 1, 0), 1);
}

static void in_sendto(void)
{
	IS(sendto(pair[0], &byte, 1, 0, NULL, 0), 1);
}

static void in_sendmsg(void)
{
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

	IS(sendmsg(pair[0], &m, 0), 1);
}

static void in_recv(void)
{
	recv(pair[0], &byte, 1, MSG_DONTWAIT);
}

static void in_recvfrom(void)
{
	recvfrom(pair[0], &byte, 1, MSG_DONTWAIT, NULL, NULL);
}

static void in_recvmsg(void)
{
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

	recvmsg(pair[0], &m, MSG_DONTWAIT);
}

static void in_accept(void)
{
	accept(fd, NULL, NULL);
}

static void in_accept4(void)
{
	accept4(fd, NULL, NULL, 0);
}

static void in_connect(void)
{
	const struct sockaddr to = { .sa_family = AF_UNSPEC };

	connect(fd, &to, sizeof(to));
}

static void in_poll(void)
{
	poll(NULL, 0, 0);
}

static void in_ppoll(void)
{
	ppoll(NULL, 0, &now, NULL);
}

static void in_select(void)
{
	struct timeval tv = { 0 };

	select(0, NULL, NULL, NULL, &tv);
}

static void in_pselect(void)
{
	pselect(0, NULL, NULL, NULL, &now, NULL);
}

static void in_epoll_wait(void)
{
	struct epoll_event e;

	epoll_wait(fd, &e, 1, 0);
}

static void in_nanosleep(void)
{
	nanosleep(&moment, NULL);
}

static void in_clock_nanosleep(void)
{
	clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
}

static void in_clock_nanosleep_past(void)
{
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &now, NULL);
}

static void in_cond_timedwait_past(void)
{
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&mutex);
	pthread_cond_timedwait(&cond, &mutex, &now);
}

static void in_usleep(void)
{
	usleep(0);
}

static void in_sleep(void)
{
	sleep(0);
}

static void in_sem_wait(void)
{
	sem_wait(sem);
}

static void in_sem_timedwait(void)
{
	sem_timedwait(sem, &now);
}

static void in_wait(void)
{
	wait(NULL);
}

static void in_waitpid(void)
{
	waitpid(-1, NULL, WNOHANG);
}

static void in_waitid(void)
{
	waitid(P_ALL, 0, NULL, WEXITED | WNOHANG);
}

static void in_sigtimedwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigtimedwait(&set, NULL, &now);
}

/* ---- */

#define E(name) { #name, in_##name }

static const struct entry {
	const char *name;
	void (*call)(void);
} entries[] = {
	E(open),
	E(open_creat),
	E(open64),
	E(openat),
	E(openat64),
	E(creat),
	E(close),
	E(read),
	E(readv),
	E(write),
	E(writev),
	E(pread),
	E(pread64),
	E(pwrite),
	E(pwrite64),
	E(preadv),
	E(pwritev),
	E(preadv2),
	E(pwritev2),
	E(fsync),
	E(fdatasync),
	E(msync),
	E(fallocate),
	E(sync_file_range),
	E(copy_file_range),
	E(splice),
	E(vmsplice),
	E(tee),
	E(tcdrain),
	E(getrandom),
	E(setlkw),
	E(lockf),
	E(mq_send),
	E(mq_timedsend),
	E(mq_receive),
	E(mq_timedreceive),
	E(msgsnd),
	E(msgrcv),
	E(send),
	E(sendto),
	E(sendmsg),
	E(recv),
	E(recvfrom),
	E(recvmsg),
	E(accept),
	E(accept4),
	E(connect),
	E(poll),
	E(ppoll),
	E(select),
	E(pselect),
	E(epoll_wait),
	E(nanosleep),
	E(clock_nanosleep),
	E(clock_nanosleep_past),
	E(cond_timedwait_past),
	E(usleep),
	E(sleep),
	E(sem_wait),
	E(sem_timedwait),
	E(wait),
	E(waitpid),
	E(waitid),
	E(sigtimedwait),
};

static void *begins(void *arg)
{
	const struct entry *e = arg;
	int old;

	IS(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	store(&about_to, 1);
	while (!load(&came))
		sched_yield();
	e->call(); /* nothing now */
	lseek(fd, 0, SEEK_SET);
	if (e->call == in_close)
		fd = open(path, O_RDWR);
	store(&about_to, 2);
	/* No point: what is asked is pending in the call. */
	IS(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	e->call();
	CHECK(!"it goes on");
	return NULL;
}

static void check_entry(const struct entry *e)
{
	struct stat st;
	void *value;
	pthread_t t;

	fprintf(stderr, "%s\n", e->name);
	about_to = came = 0;
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	IS(write(fd, "xx", 2), 2);
	lseek(fd, 0, SEEK_SET);
	t = start(begins, (void *)(uintptr_t)e);
	while (!load(&about_to))
		sched_yield();
	IS(pthread_cancel(t), 0);
	store(&came, 1);
	IS(pthread_join(t, &value), 0);
	CHECK(value == PTHREAD_CANCELED);
	IS(about_to, 2);
	/* It has not been closed, and nothing went through it. */
	IS(fstat(fd, &st), 0);
	IS(lseek(fd, 0, SEEK_CUR), 0);
	close(fd);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/test_points.XXXXXX";
	sem_t one;
	size_t i;

	CHECK(mkdtemp(dir));
	sprintf(path, "%s/file", dir);
	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	IS(sem_init(&one, 0, 10), 0);
	sem = &one;
	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (argc < 2 || !strcmp(argv[1], entries[i].name))
			check_entry(&entries[i]);
	unlink(path);
	rmdir(dir);
	return 0;
}
