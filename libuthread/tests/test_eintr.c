/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_eintr.c - a call that sleeps in the kernel does not notice the ticks
 * that find it there, though the kernel itself would not begin it anew.
 *
 * Each call is made in a uthread whose only worker somebody else wants all
 * the time, so that a tick must come while it sleeps.
 */
#include "util.h"

#if !TEST_ASAN && !TEST_TSAN
#include "preempt/calls.h"
#endif

#include <aio.h>
#include <dlfcn.h>
#include <poll.h>
#include <semaphore.h>
#include <threads.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

#define WAIT_MS 50
/* A time-out of a socket is so many of the kernel's own ticks. */
#define EARLY_MS 12

static int stop;
static long turns;

static void *busy(void *arg)
{
	while (!load(&stop))
		add(&turns, 1);
	return arg;
}

/* The call, in its own words: 0 when it ended as it should. */
static int (*call)(void);

static int callers_left; /* of several callers, those that are not through */

static void *calls(void *several)
{
	long before = load(&turns);
	uint64_t begin;

	/* Until somebody else ran meanwhile: then ticks did come. */
	for (int i = 0; i < 3 || (load(&turns) == before && !load(&stop));
	     i++) {
		begin = test_now();
		errno = 0;
		CHECK_EQ(call(), 0);
		CHECK(errno != EINTR);
		CHECK(test_now() - begin >= (WAIT_MS - EARLY_MS) * MS);
	}
	if (several && add(&callers_left, -1))
		return NULL;
	/* With shared TLS each one's call gives way to the others that a tick has
	 * stopped, who are bound to the worker. To the last one nobody is: a spare
	 * stands in. */
	while (several && !stats().blocked)
		CHECK_EQ(call(), 0);
	store(&stop, 1);
	return NULL;
}

/* `callers` of them at once. Without a spare each tick ends the call. */
static void through(int (*fn)(void), enum uthread_tick source,
		    enum uthread_tls tls, int callers, int spares)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 1 };
	struct uthread_stats st;
	uthread_t t[4];
	int i;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	c.tick_ns = 1 * MS;
	c.spares = spares;
	c.tick_source = source;
	c.tls = tls;
	c.main = UTHREAD_MAIN_PTHREAD; /* it would wait for worker 0, too */
	CHECK_EQ(uthread_init(&c), 0);
	call = fn;
	store(&callers_left, callers);
	for (i = 0; i < callers; i++)
		t[i] = spawn(calls, callers > 1 ? &callers_left : NULL);
	/* With shared TLS, once stopped, it would be bound to that worker. */
	t[i] = spawn_tls(*uthread_tls_reason() ? UTHREAD_TLS_DEFAULT :
						 UTHREAD_TLS_OWN,
			 busy, NULL);
	for (; i >= 0; i--)
		joined(t[i]);
	CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	CHECK(spares < 0 || st.blocked > 0);
}

static int by_poll(void)
{
	return poll(NULL, 0, WAIT_MS);
}

static int by_ppoll(void)
{
	struct timespec t = test_time(WAIT_MS * MS);

	return ppoll(NULL, 0, &t, NULL);
}

static int by_select(void)
{
	struct timeval t = { 0, WAIT_MS * 1000 };

	return select(0, NULL, NULL, NULL, &t);
}

static int by_epoll_wait(void)
{
	struct epoll_event e;
	int fd = epoll_create1(0), got;

	got = epoll_wait(fd, &e, 1, WAIT_MS);
	close(fd);
	return got;
}

static int by_epoll_pwait(void)
{
	struct epoll_event e;
	int fd = epoll_create1(0), got;

	got = epoll_pwait(fd, &e, 1, WAIT_MS, NULL);
	close(fd);
	return got;
}

static int by_usleep(void)
{
	return usleep(WAIT_MS * 1000);
}

static int by_nanosleep(void)
{
	struct timespec t = test_time(WAIT_MS * MS), left = { 0, 0 };

	return nanosleep(&t, &left);
}

static int by_absolute_sleep(void)
{
	struct timespec t = test_in(WAIT_MS * MS);

	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int by_thrd_sleep(void)
{
	struct timespec t = test_time(WAIT_MS * MS);

	return thrd_sleep(&t, NULL);
}

static int by_pselect(void)
{
	struct timespec t = test_time(WAIT_MS * MS);

	return pselect(0, NULL, NULL, NULL, &t, NULL);
}

static int by_semtimedop(void)
{
	struct timespec t = test_time(WAIT_MS * MS);
	struct sembuf take = { 0, -1, 0 };
	int id = semget(IPC_PRIVATE, 1, 0600), got;

	if (id < 0) {
		usleep(WAIT_MS * 1000);
		return 0; /* no System V semaphores here */
	}
	got = semtimedop(id, &take, 1, &t);
	got = got == -1 && errno == EAGAIN ? 0 : -1;
	semctl(id, 0, IPC_RMID);
	return got;
}

static void *sends_later(void *id)
{
	const struct {
		long type;
		char text[1];
	} message = { 1, { 0 } };

	usleep(WAIT_MS * 1000);
	CHECK(!msgsnd(*(int *)id, &message, 1, 0));
	return NULL;
}

static int by_msgrcv(void)
{
	struct {
		long type;
		char text[1];
	} message;
	int id = msgget(IPC_PRIVATE, 0600);
	pthread_t t;
	ssize_t got;

	if (id < 0) {
		usleep(WAIT_MS * 1000);
		return 0; /* no System V messages here */
	}
	CHECK(!pthread_create(&t, NULL, sends_later, &id));
	got = msgrcv(id, &message, 1, 0, 0);
	pthread_join(t, NULL);
	msgctl(id, IPC_RMID, NULL);
	return got == 1 ? 0 : -1;
}

static int by_sem_timedwait(void)
{
	struct timespec t;
	sem_t sem;
	int got;

	CHECK(!sem_init(&sem, 0, 0));
	CHECK(!clock_gettime(CLOCK_REALTIME, &t));
	t.tv_nsec += WAIT_MS * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	got = sem_timedwait(&sem, &t);
	return got == -1 && errno == ETIMEDOUT ? 0 : -1;
}

static int by_sem_clockwait(void)
{
	struct timespec t = test_in(WAIT_MS * MS);
	sem_t sem;
	int got;

	CHECK(!sem_init(&sem, 0, 0));
	got = sem_clockwait(&sem, CLOCK_MONOTONIC, &t);
	return got == -1 && errno == ETIMEDOUT ? 0 : -1;
}

static int by_aio_suspend(void)
{
	struct timespec t = test_time(WAIT_MS * MS);
	struct aiocb a = { .aio_nbytes = 1 };
	const struct aiocb *const all[] = { &a };
	int fds[2], got, error;
	char c;

	CHECK(!pipe(fds));
	a.aio_fildes = fds[0];
	a.aio_buf = &c;
	CHECK(!aio_read(&a));
	got = aio_suspend(all, 1, &t);
	error = errno;
	CHECK_EQ(write(fds[1], "", 1), 1);
	CHECK(!aio_suspend(all, 1, NULL));
	CHECK_EQ(aio_return(&a), 1);
	close(fds[0]);
	close(fds[1]);
	errno = error;
	return got == -1 && errno == EAGAIN ? 0 : -1;
}

/* Two ends, of which the first waits for so long. */
static void ends(int *s, int option)
{
	struct timeval t = { 0, WAIT_MS * 1000 };

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	CHECK(!setsockopt(s[0], SOL_SOCKET, option, &t, sizeof(t)));
}

static int timed_out(ssize_t got, int *s)
{
	const int error = errno;

	close(s[0]);
	close(s[1]);
	errno = error;
	return got == -1 && errno == EAGAIN ? 0 : -1;
}

static int by_read(void)
{
	int s[2];
	char c;

	ends(s, SO_RCVTIMEO);
	return timed_out(read(s[0], &c, 1), s);
}

static int by_recv(void)
{
	int s[2];
	char c;

	ends(s, SO_RCVTIMEO);
	return timed_out(recv(s[0], &c, 1, 0), s);
}

static int by_recvmsg(void)
{
	char c;
	struct iovec to = { &c, 1 };
	struct msghdr m = { .msg_iov = &to, .msg_iovlen = 1 };
	int s[2];

	ends(s, SO_RCVTIMEO);
	return timed_out(recvmsg(s[0], &m, 0), s);
}

static int by_write(void)
{
	static char much[1 << 20];
	int s[2];

	ends(s, SO_SNDTIMEO);
	while (send(s[0], much, sizeof(much), MSG_DONTWAIT) > 0)
		;
	return timed_out(write(s[0], much, sizeof(much)), s);
}

/* An address nobody else has: the kernel's own choice. */
static int listener(struct sockaddr_un *a, socklen_t *bytes)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	*bytes = sizeof(*a);
	CHECK(!bind(fd, (struct sockaddr *)a, sizeof(sa_family_t)));
	CHECK(!listen(fd, 0));
	CHECK(!getsockname(fd, (struct sockaddr *)a, bytes));
	return fd;
}

static int by_accept(void)
{
	struct timeval t = { 0, WAIT_MS * 1000 };
	struct sockaddr_un a;
	socklen_t bytes;
	int s[2];

	s[0] = listener(&a, &bytes);
	s[1] = -1;
	CHECK(!setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
	return timed_out(accept(s[0], NULL, NULL), s);
}

/* The queue of those who wait to be accepted is full. */
static int by_connect(void)
{
	struct timeval t = { 0, WAIT_MS * 1000 };
	struct sockaddr_un a;
	socklen_t bytes;
	int s[2], first = socket(AF_UNIX, SOCK_STREAM, 0), got;

	s[1] = listener(&a, &bytes);
	s[0] = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(!setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)));
	CHECK(!connect(first, (struct sockaddr *)&a, bytes));
	got = connect(s[0], (struct sockaddr *)&a, bytes);
	close(first);
	return timed_out(got, s);
}

/* The kernel thread's mask is not what the worker's usually is. */
static int by_poll_with_signals_blocked(void)
{
	sigset_t some, old;
	int got;

	sigemptyset(&some);
	sigaddset(&some, SIGFPE);
	CHECK(!pthread_sigmask(SIG_BLOCK, &some, &old));
	got = poll(NULL, 0, WAIT_MS);
	CHECK(!pthread_sigmask(SIG_SETMASK, &old, NULL));
	return got;
}

#define EACH(name)                                                             \
	TEST(name)                                                             \
	{                                                                      \
		through(by_##name, UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT,   \
			1, 0);                                                 \
	}                                                                      \
	TEST(name##_shared_tls)                                                \
	{                                                                      \
		through(by_##name, UTHREAD_TICK_WORKER, UTHREAD_TLS_SHARED, 1, \
			0);                                                    \
	}                                                                      \
	TEST(name##_monitor)                                                   \
	{                                                                      \
		through(by_##name, UTHREAD_TICK_MONITOR, UTHREAD_TLS_DEFAULT,  \
			1, 0);                                                 \
	}                                                                      \
	TEST(name##_no_spare)                                                  \
	{                                                                      \
		through(by_##name, UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT,   \
			1, -1);                                                \
	}                                                                      \
	TEST(name##_no_spare_shared_tls)                                       \
	{                                                                      \
		through(by_##name, UTHREAD_TICK_WORKER, UTHREAD_TLS_SHARED, 1, \
			-1);                                                   \
	}

EACH(poll)
EACH(poll_with_signals_blocked)
EACH(ppoll)
EACH(select)
EACH(pselect)
EACH(epoll_wait)
EACH(epoll_pwait)
EACH(usleep)
EACH(nanosleep)
EACH(thrd_sleep)
EACH(absolute_sleep)
EACH(semtimedop)
EACH(msgrcv)
EACH(sem_timedwait)
EACH(sem_clockwait)
EACH(aio_suspend)
EACH(read)
EACH(recv)
EACH(recvmsg)
EACH(write)
EACH(accept)
EACH(connect)

/* From inside libc, where a spare stands in: see eintr.h. */
#if defined(__x86_64__)
static int by_getc(void)
{
	FILE *f;
	int s[2], c, error;

	ends(s, SO_RCVTIMEO);
	f = fdopen(s[0], "r");
	CHECK(f != NULL);
	errno = 0;
	c = getc(f);
	error = errno;
	fclose(f);
	close(s[1]);
	errno = error;
	return c == EOF && errno == EAGAIN ? 0 : -1;
}

TEST(stdio)
{
	through(by_getc, UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT, 1, 0);
}
#endif

/* ---- when nobody waits any more ---- */

/* Ticks go on until one of them finds nobody who waits. */
static void *calls_alone(void *arg)
{
	int i;

	for (i = 0; i < 5; i++) {
		joined(spawn(nothing, NULL));
		CHECK_EQ(call(), 0);
	}
	return arg;
}

static void alone(int (*fn)(void), enum uthread_tls tls)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 1 };

	c.tick_ns = 1 * MS;
	c.tls = tls;
	c.main = UTHREAD_MAIN_PTHREAD; /* it would wait for worker 0, too */
	CHECK_EQ(uthread_init(&c), 0);
	call = fn;
	in_uthread(calls_alone, NULL);
}

TEST(alone)
{
	alone(by_poll, UTHREAD_TLS_DEFAULT);
}

TEST(alone_shared_tls)
{
	alone(by_poll, UTHREAD_TLS_SHARED);
}

/* ---- while a spare is being made ---- */

/* Only the first is there from the start, the others come late. */
static int late;

int pthread_create(pthread_t *t, const pthread_attr_t *attr,
		   void *(*fn)(void *), void *arg)
{
	static int (*create)(pthread_t *, const pthread_attr_t *,
			     void *(*)(void *), void *);

	if (!create)
		*(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
	if (load(&late) && gettid() != getpid())
		usleep(50000);
	return create(t, attr, fn, arg);
}

TEST(several_wait_for_a_spare)
{
	store(&late, 1);
	through(by_poll, UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT, 3, 0);
}

TEST(several_wait_for_a_spare_shared_tls)
{
	store(&late, 1);
	through(by_poll, UTHREAD_TICK_WORKER, UTHREAD_TLS_SHARED, 3, 0);
}

/* ---- before it sleeps ---- */

#if !TEST_ASAN && !TEST_TSAN
static __typeof__(poll) *libc_poll;
static int looks;

/* The kernel ends a poll() that only looks, too, when a tick is there; the handler
 * then says so. */
static int ticked_poll(struct pollfd *fds, nfds_t n, int ms)
{
	if (ms || add(&looks, 1) > 1)
		return libc_poll(fds, n, ms);
	uthread_self()->call->ticked = true;
	errno = EINTR;
	return -1;
}

static void *looks_before_it_sleeps(void *arg)
{
	uthread_t t;

	while (!load(&looks)) {
		t = spawn(nothing, NULL); /* waits for this worker */
		errno = 0;
		CHECK_EQ(poll(NULL, 0, 1), 0);
		CHECK_EQ(errno, 0);
		joined(t);
	}
	return arg;
}

TEST(a_tick_while_it_looks_is_not_noticed)
{
	start_workers(1);
	if (!stats().tick_ns)
		SKIP("no ticks");
	libc_poll = calls_libc.poll;
	calls_libc.poll = ticked_poll;
	in_uthread(looks_before_it_sleeps, NULL);
	CHECK(load(&looks) > 1);
}
#endif

TEST_MAIN()
