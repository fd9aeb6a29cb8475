/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_points.c - which calls act on a cancellation that is pending, and which do not,
 * when they need not wait: POSIX leaves that open for most.
 *
 * Without those of libc's that read and write by themselves (stdio), which are points
 * with glibc's threads alone.
 */
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <semaphore.h>
#include <signal.h>
#include <sched.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>

#include "same.h"

static int file, pair[2], event, ready, number;
static const char *path;
static char byte, name[16], buf[4096];
static struct passwd pw, *pws;
static struct group gr, *grs;
static struct iovec part = { &byte, 1 };
static struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
static const struct timespec none;
static struct timeval zero, never = { -1, 0 };
static struct epoll_event happened;
static struct pollfd polled;
static struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
static struct stat status;
static struct statvfs space;
static eventfd_t count = 1;
static sigset_t set, blocked;
static siginfo_t info;
static cpu_set_t cpus;
static sem_t sem;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static pthread_t ended;
static mtx_t mtx;

static char *template(void)
{
	return strcpy(buf, "/proc/none/same_points.XXXXXX");
}

static void nothing(void)
{
}

static void *returns(void *arg)
{
	return arg;
}

static int detached(void)
{
	return pthread_detach(start(returns, NULL));
}

static int key(void)
{
	pthread_key_t k;

	pthread_key_create(&k, NULL);
	pthread_setspecific(k, &k);
	return pthread_key_delete(k);
}

static int forks(void)
{
	const pid_t pid = fork();

	if (!pid)
		_exit(0);
	return waitpid(pid, NULL, WNOHANG) < 0;
}

#define CALLS(F)                                            \
	F(access(path, R_OK))                               \
	F(open(path, O_RDWR))                               \
	F(openat(AT_FDCWD, path, O_RDWR))                   \
	F(close(-1))                                        \
	F(dup2(file, file))                                 \
	F(read(file, &byte, 0))                             \
	F(read(-1, &byte, 1))                               \
	F(write(file, &byte, 0))                            \
	F(write(-1, &byte, 1))                              \
	F(pread(file, &byte, 1, 0))                         \
	F(pwrite(file, &byte, 1, 0))                        \
	F(readv(file, &part, 1))                            \
	F(writev(file, &part, 1))                           \
	F(lseek(file, 0, SEEK_SET))                         \
	F(fsync(file))                                      \
	F(fdatasync(file))                                  \
	F(msync(NULL, 0, MS_SYNC))                          \
	F(munmap((void *)1, 1))                             \
	F(ftruncate(file, 10))                              \
	F(fstat(file, &status))                             \
	F(stat(path, &status))                              \
	F(statvfs(path, &space))                            \
	F(chmod(path, 0600))                                \
	F(rename(path, path))                               \
	F(fcntl(file, F_GETFL))                             \
	F(fcntl(file, F_SETLK, &lock))                      \
	F(fcntl(file, F_SETLKW, &lock))                     \
	F(lockf(file, F_LOCK, 0))                           \
	F(lockf(file, F_ULOCK, 0))                          \
	F(flock(file, LOCK_EX))                             \
	F(poll(&polled, 1, 0))                              \
	F(poll(&polled, 1, -1))                             \
	F(ppoll(&polled, 1, &none, NULL))                   \
	F(select(0, NULL, NULL, NULL, &zero))               \
	F(select(0, NULL, NULL, NULL, &never))              \
	F(pselect(0, NULL, NULL, NULL, &none, NULL))        \
	F(epoll_wait(ready, &happened, 1, 0))               \
	F(epoll_wait(-1, &happened, 1, 0))                  \
	F(eventfd_write(event, 1))                          \
	F(eventfd_read(event, &count))                      \
	F(send(pair[0], &byte, 1, 0))                       \
	F(recv(pair[1], &byte, 1, MSG_DONTWAIT))            \
	F(sendmsg(pair[0], &message, 0))                    \
	F(recvmsg(pair[1], &message, MSG_DONTWAIT))         \
	F(accept(file, NULL, NULL))                         \
	F(connect(file, (struct sockaddr *)name, 4))        \
	F(shutdown(-1, 0))                                  \
	F(nanosleep(&none, NULL))                           \
	F(nanosleep(&negative, NULL))                       \
	F(clock_nanosleep(CLOCK_MONOTONIC, 0, &none, NULL)) \
	F(usleep(0))                                        \
	F(sleep(0))                                         \
	F(thrd_sleep(&none, NULL))                          \
	F(sched_yield())                                    \
	F(getrandom(&byte, 1, 0))                           \
	F(sem_wait(&sem))                                   \
	F(sem_trywait(&sem))                                \
	F(sem_post(&sem))                                   \
	F(sem_timedwait(&sem, &past))                       \
	F(sem_timedwait(&sem, &negative))                   \
	F(sem_clockwait(&sem, CLOCK_MONOTONIC, &past))      \
	F(pthread_mutex_lock(&mutex))                       \
	F(pthread_mutex_timedlock(&mutex, &past))           \
	F(pthread_cond_timedwait(&cond, &mutex, &negative)) \
	F(pthread_mutex_unlock(&mutex))                     \
	F(pthread_cond_signal(&cond))                       \
	F(pthread_rwlock_rdlock(&rwlock))                   \
	F(pthread_rwlock_unlock(&rwlock))                   \
	F(pthread_barrier_wait(&barrier))                   \
	F(pthread_once(&once, nothing))                     \
	F(pthread_spin_lock(&spin))                         \
	F(pthread_spin_unlock(&spin))                       \
	F(mtx_lock(&mtx))                                   \
	F(mtx_unlock(&mtx))                                 \
	F(pthread_join(ended, NULL))                        \
	F(pthread_timedjoin_np(ended, NULL, &past))         \
	F(thrd_join(ended, &number))                        \
	F(pthread_tryjoin_np(ended, NULL))                  \
	F(pthread_join(pthread_self(), NULL))               \
	F(pthread_setcancelstate(0, NULL))                  \
	F(pthread_setcanceltype(0, NULL))                   \
	F(pthread_setcanceltype(1, NULL))                   \
	F(pthread_kill(pthread_self(), 0))                  \
	F(pthread_setname_np(pthread_self(), "name"))       \
	F(detached())                                       \
	F(key())                                            \
	F(forks())                                          \
	F(raise(SIGWINCH))                                  \
	F(pthread_sigmask(SIG_BLOCK, NULL, &set))           \
	F(sigpending(&set))                                 \
	F(sigtimedwait(&blocked, NULL, &none))              \
	F(wait(NULL))                                       \
	F(waitpid(-1, NULL, WNOHANG))                       \
	F(waitid(P_ALL, 0, &info, WEXITED | WNOHANG))       \
	F(mkstemp(template()))                              \
	F(mkostemp(template(), O_CLOEXEC))                  \
	F(mkstemps(template(), 0))                          \
	F(mkostemps(template(), 0, O_CLOEXEC))              \
	F(tmpfile())                                        \
	F(posix_openpt(O_RDWR | O_NOCTTY))                  \
	F(getpwnam("root"))                                 \
	F(getpwuid(0))                                      \
	F(getgrnam("root"))                                 \
	F(getgrgid(0))                                      \
	F(getpwnam_r("root", &pw, buf, sizeof(buf), &pws))  \
	F(getpwuid_r(0, &pw, buf, sizeof(buf), &pws))       \
	F(getgrnam_r("root", &gr, buf, sizeof(buf), &grs))  \
	F(getgrgid_r(0, &gr, buf, sizeof(buf), &grs))       \
	F(system(NULL))                                     \
	F(system("exit 3"))                                 \
	F(sem_unlink("/not-there"))                         \
	F(shm_open("/not-there", O_RDONLY, 0))              \
	F(sched_getaffinity(0, sizeof(cpus), &cpus))        \
	F(getpid())

#define NAME(call) #call,
static const char *const names[] = { CALLS(NAME) };
#define COUNT (sizeof(names) / sizeof(names[0]))

static void call(size_t which)
{
	size_t i = 0;

#define CALL(call)             \
	if (i++ == which) {    \
		(void)!(call); \
		return;        \
	}
	CALLS(CALL)
}

static void *calls(void *arg)
{
	const size_t *which = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	call(*which);
	return NULL;
}

static void *says_number(void *arg)
{
	__atomic_store_n((pid_t *)arg, gettid(), __ATOMIC_SEQ_CST);
	return arg;
}

/* Nobody has its number then. */
static void has_ended(void)
{
	pid_t tid = 0, is;

	ended = start(says_number, &tid);
	while (!(is = __atomic_load_n(&tid, __ATOMIC_SEQ_CST)) ||
	       !tgkill(getpid(), is, 0))
		usleep(500);
}

static bool is_point(size_t which)
{
	if (strstr(names[which], "(ended"))
		has_ended();
	return by_thread(calls, &which) == PTHREAD_CANCELED;
}

int main(void)
{
	char at[] = "/tmp/same_points.XXXXXX";
	size_t i;

	file = mkstemp(at);
	path = at;
	CHECK(file >= 0);
	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	event = eventfd(0, EFD_NONBLOCK);
	ready = epoll_create1(0);
	polled = (struct pollfd){ .fd = pair[0], .events = POLLOUT };
	sem_init(&sem, 0, 100);
	pthread_barrier_init(&barrier, NULL, 1);
	pthread_spin_init(&spin, 0);
	mtx_init(&mtx, mtx_plain);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	signal(SIGWINCH, SIG_IGN);
	for (i = 0; i < COUNT; i++)
		TITLE("%s: %s", names[i], is_point(i) ? "a point" : "none");
	unlink(at);
	return 0;
}
