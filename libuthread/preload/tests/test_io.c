/* SPDX-License-Identifier: Apache-2.0 */
/* test_io.c - calls that wait: descriptors, time, futexes; ended by handlers. */
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <netinet/in.h>

#include "check.h"
#include "tcp_pair.h"

static int a_pipe[2], a_pair[2];

/* ---- streams ---- */

#define BULK (1 << 20)

static void *writes(void *arg)
{
	const int fd = *(int *)arg;
	char *bulk = malloc(BULK);
	size_t i;

	for (i = 0; i < BULK; i++)
		bulk[i] = (char)(i * 7);
	IS(write(fd, bulk, BULK), BULK); /* all of it: more than fits */
	free(bulk);
	return NULL;
}

static void reads_all(int fd)
{
	char *bulk = malloc(BULK);
	size_t at = 0, i;
	ssize_t got;

	while (at < BULK) {
		got = read(fd, bulk + at, BULK - at);
		CHECK(got > 0);
		at += (size_t)got;
	}
	for (i = 0; i < BULK; i++)
		IS(bulk[i], (char)(i * 7));
	free(bulk);
}

/* The same in many parts, uneven and empty ones too. */
#define PARTS 50

static void in_parts(char *bulk, struct iovec part[PARTS])
{
	size_t at = 0, i;

	for (i = 0; i < BULK; i++)
		bulk[i] = (char)(i * 7);
	for (i = 0; i < PARTS; i++) {
		part[i].iov_base = bulk + at;
		part[i].iov_len = i % 5 == 3	? 0 :
				  i + 1 < PARTS ? 9001 + 977 * i % 8000 :
						  BULK - at;
		at += part[i].iov_len;
	}
	IS(at, BULK);
}

static void *writes_parts(void *arg)
{
	char *bulk = malloc(BULK);
	struct iovec part[PARTS];

	in_parts(bulk, part);
	errno = EXDEV;
	IS(writev(*(int *)arg, part, PARTS), BULK);
	IS(errno, EXDEV);
	free(bulk);
	return NULL;
}

union passed {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

static void *sends_parts(void *arg)
{
	char *bulk = malloc(BULK);
	struct iovec part[PARTS];
	union passed p = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				     .cmsg_level = SOL_SOCKET,
				     .cmsg_type = SCM_RIGHTS } };
	struct msghdr m = { .msg_iov = part,
			    .msg_iovlen = PARTS,
			    .msg_control = &p,
			    .msg_controllen = sizeof(p) };

	memcpy(CMSG_DATA(&p.head), &a_pipe[1], sizeof(int));
	in_parts(bulk, part);
	errno = EXDEV;
	IS(sendmsg(*(int *)arg, &m, 0), BULK);
	IS(errno, EXDEV);
	free(bulk);
	return NULL;
}

/* One descriptor comes, once, and it is the pipe's. */
static void receives_parts(int fd)
{
	char *bulk = malloc(BULK), c;
	int came = 0, passed;
	size_t at = 0, i;

	while (at < BULK) {
		struct iovec part = { bulk + at, BULK - at };
		union passed p;
		struct msghdr m = { .msg_iov = &part,
				    .msg_iovlen = 1,
				    .msg_control = &p,
				    .msg_controllen = sizeof(p) };
		ssize_t got = recvmsg(fd, &m, 0);

		CHECK(got > 0);
		at += (size_t)got;
		if (!m.msg_controllen)
			continue;
		came++;
		memcpy(&passed, CMSG_DATA(&p.head), sizeof(int));
		IS(write(passed, "!", 1), 1);
		IS(read(a_pipe[0], &c, 1), 1);
		IS(c, '!');
		close(passed);
	}
	IS(came, 1);
	for (i = 0; i < BULK; i++)
		IS(bulk[i], (char)(i * 7));
	free(bulk);
}

static void test_parts(void)
{
	const struct timeval soon = { .tv_usec = 20000 };
	struct iovec part[PARTS];
	char *bulk = malloc(BULK);
	int pair[2];
	pthread_t t;
	ssize_t got;

	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	t = start(writes_parts, &a_pipe[1]);
	reads_all(a_pipe[0]);
	pthread_join(t, NULL);
	t = start(sends_parts, &pair[0]);
	receives_parts(pair[1]);
	pthread_join(t, NULL);
	/* Nobody reads: what fits, when the time is up. */
	in_parts(bulk, part);
	IS(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)),
	   0);
	got = writev(pair[0], part, PARTS);
	CHECK(got > 0 && got < BULK);
	IS(writev(pair[0], part, PARTS), -1);
	IS(errno, EAGAIN);
	while (got > 0)
		got -= recv(pair[1], bulk, BULK, 0);
	IS(got, 0);
	close(pair[0]);
	close(pair[1]);
	free(bulk);
}

static void *echoes(void *arg)
{
	char buf[64];
	ssize_t got;

	while ((got = recv(*(int *)arg, buf, sizeof(buf), 0)) > 0)
		IS(send(*(int *)arg, buf, (size_t)got, 0), got);
	IS(got, 0);
	return NULL;
}

static void test_streams(void)
{
	pthread_t t;
	char buf[8];
	int i;

	t = start(writes, &a_pipe[1]);
	reads_all(a_pipe[0]);
	pthread_join(t, NULL);
	t = start(writes, &a_pair[1]);
	reads_all(a_pair[0]);
	pthread_join(t, NULL);
	t = start(echoes, &a_pair[1]);
	for (i = 0; i < 200; i++) {
		errno = 77;
		IS(send(a_pair[0], "12345678", 8, 0), 8);
		IS(recv(a_pair[0], buf, 8, MSG_WAITALL), 8);
		IS(errno, 77);
		CHECK(!memcmp(buf, "12345678", 8));
	}
	shutdown(a_pair[0], SHUT_WR);
	pthread_join(t, NULL);
}

/* ---- who does not want to wait ---- */

static void test_nonblocking(void)
{
	struct timeval tv = { .tv_usec = 3000 };
	int fds[2];
	char c;

	IS(pipe2(fds, O_NONBLOCK), 0);
	IS(read(fds[0], &c, 1), -1);
	IS(errno, EAGAIN);
	CHECK(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	close(fds[0]);
	close(fds[1]);
	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	IS(recv(fds[0], &c, 1, MSG_DONTWAIT), -1);
	IS(errno, EAGAIN);
	IS(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	IS(recv(fds[0], &c, 1, 0), -1);
	IS(errno, EAGAIN);
	CHECK(!(fcntl(fds[0], F_GETFL) & O_NONBLOCK));
	close(fds[0]);
	IS(read(fds[0], &c, 1), -1);
	IS(errno, EBADF);
	close(fds[1]);
}

/* ---- connections ---- */

static void *serves(void *arg)
{
	pthread_t t[8];
	int fds[8], i;

	for (i = 0; i < 8; i++) {
		fds[i] = accept(*(int *)arg, NULL, NULL);
		CHECK(fds[i] >= 0);
		t[i] = start(echoes, &fds[i]);
	}
	for (i = 0; i < 8; i++) {
		pthread_join(t[i], NULL);
		close(fds[i]);
	}
	return NULL;
}

static struct sockaddr_in address;

static void *connects(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), i;
	char buf[5];

	IS(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	for (i = 0; i < 50; i++) {
		IS(write(fd, "hello", 5), 5);
		IS(recv(fd, buf, 5, MSG_WAITALL), 5);
		CHECK(!memcmp(buf, "hello", 5));
	}
	close(fd);
	return arg;
}

static void test_connections(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), i;
	socklen_t bytes = sizeof(address);
	pthread_t server, t[8];

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	IS(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	IS(listen(fd, 8), 0);
	IS(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	server = start(serves, &fd);
	for (i = 0; i < 8; i++)
		t[i] = start(connects, NULL);
	for (i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	pthread_join(server, NULL);
	close(fd);
}

/* ---- readiness ---- */

static void *writes_one(void *arg)
{
	usleep(1000);
	IS(write(*(int *)arg, "x", 1), 1);
	return NULL;
}

static void test_readiness(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct pollfd p = { .events = POLLIN };
	int fds[2], ep = epoll_create1(0);
	fd_set set;
	pthread_t t;
	char c;

	IS(pipe(fds), 0);
	p.fd = fds[0];
	IS(poll(&p, 1, 2), 0);
	IS(poll(NULL, 0, 2), 0);
	t = start(writes_one, &fds[1]);
	IS(poll(&p, 1, -1), 1);
	IS(p.revents, POLLIN);
	pthread_join(t, NULL);
	IS(read(fds[0], &c, 1), 1);
	IS(epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &e), 0);
	IS(epoll_wait(ep, &e, 1, 2), 0);
	t = start(writes_one, &fds[1]);
	IS(epoll_wait(ep, &e, 1, -1), 1);
	pthread_join(t, NULL);
	FD_ZERO(&set);
	FD_SET(fds[0], &set);
	IS(select(fds[0] + 1, &set, NULL, NULL, NULL), 1);
	close(fds[0]);
	close(fds[1]);
	close(ep);
}

/* ---- handlers ---- */

static volatile int handled;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

enum what { READ, SLEEP, POLL, SEM, READ_RESTARTED };

static sem_t sem;
static volatile int over;

static void *is_interrupted(void *arg)
{
	const struct timespec day = { .tv_sec = 86400 };
	struct timespec left = { 0 };
	struct pollfd p = { .fd = a_pipe[0], .events = POLLIN };
	char c;

	switch (*(enum what *)arg) {
	case READ:
		IS(read(a_pipe[0], &c, 1), -1);
		break;
	case SLEEP:
		IS(nanosleep(&day, &left), -1);
		CHECK(left.tv_sec >= 86000 && left.tv_sec <= 86400);
		break;
	case POLL:
		IS(poll(&p, 1, -1), -1);
		break;
	case SEM:
		IS(sem_wait(&sem), -1);
		break;
	case READ_RESTARTED:
		IS(read(a_pipe[0], &c, 1), 1);
		errno = EINTR;
		break;
	}
	IS(errno, EINTR);
	over = 1;
	return NULL;
}

static void interrupt(enum what what, int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };
	pthread_t t;

	sigaction(SIGUSR1, &sa, NULL);
	handled = over = 0;
	t = start(is_interrupted, &what);
	/* It may not be there yet, or just be gone. */
	while (!over && !(what == READ_RESTARTED && handled > 3)) {
		IS(pthread_kill(t, SIGUSR1), 0);
		usleep(500);
	}
	if (what == READ_RESTARTED)
		IS(write(a_pipe[1], "x", 1), 1);
	pthread_join(t, NULL);
	CHECK(handled > 0);
}

static void test_handlers(void)
{
	sem_init(&sem, 0, 0);
	interrupt(READ, 0);
	interrupt(SLEEP, SA_RESTART);
	interrupt(POLL, SA_RESTART);
	interrupt(SEM, 0);
	interrupt(READ_RESTARTED, SA_RESTART);
}

static void posts(int sig)
{
	(void)sig;
	sem_post(&sem);
}

static void *kills(void *arg)
{
	const pthread_t t = *(pthread_t *)arg;
	int i;

	for (i = 0; i < 200; i++)
		IS(pthread_kill(t, SIGUSR2), 0);
	return NULL;
}

/* Which sem_post() is for. Signals that wait are one. */
static void test_post(void)
{
	struct sigaction sa = { .sa_handler = posts, .sa_flags = SA_RESTART };
	pthread_t me = pthread_self(), t;

	sigaction(SIGUSR2, &sa, NULL);
	t = start(kills, &me);
	while (sem_wait(&sem))
		IS(errno, EINTR);
	pthread_join(t, NULL);
}

/* ---- futexes ---- */

static uint32_t word, never;

static void *waits_for_word(void *arg)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	IS(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 5, NULL), -1);
	IS(errno, EAGAIN);
	IS(syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &ms), -1);
	IS(errno, ETIMEDOUT);
	while (!__atomic_load_n(&word, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL,
			NULL, 2);
	return arg;
}

static void test_futex(void)
{
	pthread_t t[20];
	int i;

	for (i = 0; i < 20; i++)
		t[i] = start(waits_for_word, NULL);
	usleep(2000);
	__atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
	IS(syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 100, NULL, NULL,
		   1),
	   0);
	CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 100) <= 20);
	for (i = 0; i < 20; i++)
		pthread_join(t[i], NULL);
}

/* The listener takes nobody, and its queue is full. */
static void *is_not_taken(void *arg)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX }; /* a name for it */
	const struct timeval soon = { .tv_usec = 20000 };
	socklen_t room = sizeof(sa_family_t);
	int listener, first, second;

	CHECK((listener = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
	IS(bind(listener, (struct sockaddr *)&to, room), 0);
	IS(listen(listener, 0), 0);
	room = sizeof(to);
	IS(getsockname(listener, (struct sockaddr *)&to, &room), 0);
	CHECK((first = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
	IS(connect(first, (struct sockaddr *)&to, room), 0);
	CHECK((second = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
	IS(setsockopt(second, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)), 0);
	IS(connect(second, (struct sockaddr *)&to, room), -1);
	IS(errno, EAGAIN);
	close(listener);
	close(first);
	close(second);
	return arg;
}

static void *time_passes(void *arg)
{
	struct timespec before, after, t = { .tv_nsec = 3000000 };

	clock_gettime(CLOCK_MONOTONIC, &before);
	IS(nanosleep(&t, NULL), 0);
	IS(usleep(3000), 0);
	IS(clock_nanosleep(CLOCK_REALTIME, 0, &t, NULL), 0);
	IS(sleep(0), 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	CHECK((after.tv_sec - before.tv_sec) * 1000000000l + after.tv_nsec -
		      before.tv_nsec >=
	      9000000);
	IS(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &before, NULL), 0);
	t.tv_nsec = -1;
	IS(nanosleep(&t, NULL), -1);
	IS(errno, EINVAL);
	return arg;
}

/* ---- a reset after a part ---- */

static char much[8 * BULK];

static void *is_told_next(void *arg)
{
	const int how = *(int *)arg;
	struct iovec v[] = { { much, 5 }, { much + 5, sizeof(much) - 5 } };
	const struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	const ssize_t got = how == 0 ? write(a_pair[1], much, sizeof(much)) :
			    how == 1 ? writev(a_pair[1], v, 2) :
			    how == 2 ? send(a_pair[1], much, sizeof(much), 0) :
				       sendmsg(a_pair[1], &m, 0);

	IS(got > 0 && got < (ssize_t)sizeof(much), 1);
	IS(send(a_pair[1], "x", 1, 0), -1);
	IS(errno, ECONNRESET);
	IS(send(a_pair[1], "x", 1, MSG_NOSIGNAL), -1);
	IS(errno, EPIPE);
	return NULL;
}

static void test_resets(void)
{
	const struct linger l = { .l_onoff = 1 };
	const int room = 65536;
	struct pollfd there = { .events = POLLIN };
	pthread_t t;
	int how;

	for (how = 0; how < 4; how++) {
		tcp_pair(a_pair);
		IS(setsockopt(a_pair[1], SOL_SOCKET, SO_SNDBUF, &room,
			      sizeof(room)),
		   0);
		t = start(is_told_next, &how);
		there.fd = a_pair[0];
		IS(poll(&there, 1, -1), 1);
		usleep(30000); /* it has sent a part, and waits */
		IS(setsockopt(a_pair[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)),
		   0);
		close(a_pair[0]);
		pthread_join(t, NULL);
		close(a_pair[1]);
	}
}

int main(void)
{
	IS(pipe(a_pipe), 0);
	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, a_pair), 0);
	pthread_join(start(time_passes, NULL), NULL);
	time_passes(NULL);
	test_streams();
	test_parts();
	test_nonblocking();
	test_connections();
	test_resets();
	is_not_taken(NULL);
	pthread_join(start(is_not_taken, NULL), NULL);
	test_readiness();
	test_handlers();
	test_post();
	test_futex();
	return 0;
}
