/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mmsg.c [many] - recvmmsg and sendmmsg: how many they move, what ends them, and
 * that a thread in one keeps no kernel thread.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "check.h"

#define N 8
#define BYTES 64

struct messages {
	struct mmsghdr m[N];
	struct iovec v[N];
	char bytes[N][BYTES];
};

static void set_up(struct messages *s)
{
	int i;

	memset(s, 0, sizeof(*s));
	for (i = 0; i < N; i++) {
		s->v[i] = (struct iovec){ s->bytes[i], BYTES };
		s->m[i].msg_hdr.msg_iov = &s->v[i];
		s->m[i].msg_hdr.msg_iovlen = 1;
	}
}

/* The i-th has i + 1 bytes of its own. */
static void fill(struct messages *s)
{
	int i;

	set_up(s);
	for (i = 0; i < N; i++) {
		memset(s->bytes[i], 'a' + i, BYTES);
		s->v[i].iov_len = (size_t)i + 1;
	}
}

static void are(const struct messages *s, int first, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		IS(s->m[i].msg_len, first + i + 1);
		IS(s->bytes[i][first + i], 'a' + first + i);
		IS(s->bytes[i][first + i + 1], 0);
	}
}

static void pair(int type, int fds[2])
{
	IS(socketpair(AF_UNIX, type, 0, fds), 0);
}

static void limit(int fd, int option)
{
	struct timeval tv = { .tv_usec = 20000 };

	IS(setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv)), 0);
}

static void *sends_the_rest(void *arg)
{
	struct messages s;

	fill(&s);
	usleep(20000);
	IS(sendmmsg(*(int *)arg, s.m + 3, N - 3, 0), N - 3);
	return arg;
}

static void test_received(void)
{
	struct messages to, from;
	struct timespec t = { .tv_nsec = 1000000 };
	pthread_t other;
	int fds[2];

	pair(SOCK_DGRAM, fds);
	fill(&from);
	set_up(&to);
	IS(recvmmsg(fds[0], to.m, N, MSG_DONTWAIT, NULL), -1);
	IS(errno, EAGAIN);
	IS(sendmmsg(fds[1], from.m, 3, 0), 3);
	IS(from.m[2].msg_len, 3);
	IS(recvmmsg(fds[0], to.m, N, MSG_WAITFORONE, NULL), 3);
	are(&to, 0, 3);
	/* All that are asked for, or until the socket's own time. */
	set_up(&to);
	IS(sendmmsg(fds[1], from.m, 3, 0), 3);
	other = start(sends_the_rest, &fds[1]);
	errno = 7;
	IS(recvmmsg(fds[0], to.m, N, 0, NULL), N);
	IS(errno, 7);
	are(&to, 0, N);
	pthread_join(other, NULL);
	set_up(&to);
	limit(fds[0], SO_RCVTIMEO);
	IS(recvmmsg(fds[0], to.m, N, 0, NULL), -1);
	IS(errno, EAGAIN);
	IS(sendmmsg(fds[1], from.m, 3, 0), 3);
	IS(recvmmsg(fds[0], to.m, N, 0, NULL), 3);
	are(&to, 0, 3);
	IS(recvmmsg(fds[0], to.m, 0, 0, NULL), 0);
	IS(sendmmsg(fds[1], from.m, 0, 0), 0);
	IS(sendmmsg(fds[1], from.m, 1, 0), 1);
	IS(recvmmsg(fds[0], to.m, 1, 0, &t), 1);
	close(fds[0]);
	close(fds[1]);
	IS(recvmmsg(fds[0], to.m, N, 0, NULL), -1);
	IS(errno, EBADF);
	IS(sendmmsg(fds[0], from.m, N, 0), -1);
	IS(errno, EBADF);
}

/* ---- sending ---- */

static void *takes_all(void *arg)
{
	char buf[BYTES];
	long all = 0;
	ssize_t got;

	usleep(20000);
	while ((got = read(*(int *)arg, buf, sizeof(buf))) > 0)
		all += got;
	return (void *)all;
}

#define ROUNDS 300

static void test_sent(int type)
{
	struct messages s;
	pthread_t other;
	void *all;
	int fds[2], i;

	pair(type, fds);
	fill(&s);
	other = start(takes_all, &fds[0]);
	for (i = 0; i < ROUNDS; i++)
		IS(sendmmsg(fds[1], s.m, N, 0), N);
	close(fds[1]);
	pthread_join(other, &all);
	IS(all, (long)ROUNDS * N * (N + 1) / 2);
	close(fds[0]);
}

/* More than a stream takes at once is one message all the same. */
static void test_whole(void)
{
	static char much[1 << 20];
	struct iovec v = { much, sizeof(much) };
	struct mmsghdr m[2] = { 0 };
	pthread_t other;
	void *all;
	int fds[2];

	m[0].msg_hdr.msg_iov = m[1].msg_hdr.msg_iov = &v;
	m[0].msg_hdr.msg_iovlen = m[1].msg_hdr.msg_iovlen = 1;
	pair(SOCK_STREAM, fds);
	other = start(takes_all, &fds[0]);
	IS(sendmmsg(fds[1], m, 2, 0), 2);
	IS(m[0].msg_len, sizeof(much));
	IS(m[1].msg_len, sizeof(much));
	close(fds[1]);
	pthread_join(other, &all);
	IS(all, 2 * sizeof(much));
	close(fds[0]);
}

static void test_full(void)
{
	struct messages s;
	int fds[2], got, all = 0;

	pair(SOCK_DGRAM, fds);
	limit(fds[1], SO_SNDTIMEO);
	fill(&s);
	while ((got = sendmmsg(fds[1], s.m, N, 0)) > 0)
		all += got;
	IS(errno, EAGAIN);
	set_up(&s);
	for (got = 0; got < all; got++)
		IS(read(fds[0], s.bytes[0], BYTES), got % N + 1);
	IS(recv(fds[0], s.bytes[0], BYTES, MSG_DONTWAIT), -1);
	close(fds[0]);
	close(fds[1]);
}

/* ---- what ends them ---- */

static int ended;

static void *receives(void *arg)
{
	struct messages s;
	int got;

	set_up(&s);
	got = recvmmsg(*(int *)arg, s.m, N, 0, NULL);
	IS(got < 0 ? errno : got, EINTR);
	__atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
	return arg;
}

static void on_signal(int sig)
{
	(void)sig;
}

static void test_ends(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	pthread_t t;
	void *value;
	int fds[2];

	pair(SOCK_DGRAM, fds);
	sigaction(SIGUSR1, &sa, NULL);
	t = start(receives, &fds[0]);
	while (!__atomic_load_n(&ended, __ATOMIC_SEQ_CST)) {
		usleep(5000);
		pthread_kill(t, SIGUSR1);
	}
	pthread_join(t, NULL);
	t = start(receives, &fds[0]);
	usleep(5000);
	IS(pthread_cancel(t), 0);
	pthread_join(t, &value);
	CHECK(value == PTHREAD_CANCELED);
	close(fds[0]);
	close(fds[1]);
}

/* ---- many ---- */

#define MANY 150

static struct {
	int from[2];
} links[MANY + 1];

/* One message from the next, and on to the one before: who began first is the last. */
static void *is_a_link(void *arg)
{
	const long i = (long)arg;
	struct messages s;

	set_up(&s);
	IS(recvmmsg(links[i + 1].from[0], s.m, N, MSG_WAITFORONE, NULL), 1);
	s.v[0].iov_len = s.m[0].msg_len;
	IS(sendmmsg(links[i].from[1], s.m, 1, 0), 1);
	return arg;
}

static void test_many(void)
{
	pthread_t t[MANY];
	char buf[BYTES];
	long i;

	for (i = 0; i <= MANY; i++)
		pair(SOCK_DGRAM, links[i].from);
	for (i = 0; i < MANY; i++)
		t[i] = start(is_a_link, (void *)i);
	usleep(2000);
	IS(write(links[MANY].from[1], "hello", 5), 5);
	for (i = 0; i < MANY; i++)
		pthread_join(t[i], NULL);
	IS(read(links[0].from[0], buf, BYTES), 5);
	CHECK(!memcmp(buf, "hello", 5));
}

int main(int argc, char *argv[])
{
	if (argc > 1 && !strcmp(argv[1], "many")) {
		test_many();
		return 0;
	}
	test_received();
	test_sent(SOCK_SEQPACKET);
	test_sent(SOCK_STREAM);
	test_whole();
	test_full();
	test_ends();
	test_many();
	return 0;
}
