// SPDX-License-Identifier: Apache-2.0
/*
 * echo.c - the trial `io-echo`: many connections and one echo server, whoever that
 * is; how many requests it answers, and how long each takes.
 *
 * The server is a process of its own on the first `workers` of `cpus`; the load is
 * this one, on the last of them (load.c). They share a listening socket on the
 * loopback device, made here, and two pipes:
 *
 *	control	a byte 'h': begin the hogs; its end: say what there is to say, and end
 *	result	records of the protocol, as from a probe
 *
 * Servers of C are a fork of this process; those of other runtimes are programs
 * beside it (swtch-probe-MODEL), started with the trial `io-server` on standard
 * input, which names both descriptors; a plain one has them as arguments. So everybody is asked by the same load, and
 * what it measures of a server is the same for all: nothing is taken from the
 * server but what only it can know.
 *
 * What a machine cannot do, so many descriptors or io_uring, is no failure: the
 * sample is without numbers (`measured` false), and `unmeasured` says why.
 *
 * With `hogs` so many endless loops for each of the server's CPUs begin when all
 * connections are there: of uthreads uthreads, of Go goroutines; of pthreads, and
 * beside the loop, pthreads; of tokio, whose tasks nobody stops, threads of
 * spawn_blocking().
 *
 * Rejected: servers as threads of this process (the load's descriptors and memory
 * would be theirs, and its CPU time), a server that is asked over Unix sockets (no
 * client is), to take a server's own word for its throughput.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/io.h"
#include "io/echo.h"

#define DESCRIPTORS 64 /* beside the connections' */
#define SETTLE_NS 30000000 /* from the hogs' begin to the first request */
#define END_MS 10000 /* for a server to end */
#define RESULT_MAX 65536

struct echo echo;

static const char *const models[] = { "pthread", "uthread", "go", "tokio",
				      NULL };
static const char *const ways[] = { "threads", "loop",	"epoll", "uring",
				    "net",     "plain", NULL };
enum { PTHREAD, UTHREAD, GO, TOKIO };

static struct {
	pid_t pid; /* 0: not started, or reaped */
	clockid_t clock;
	int control, result; /* this side's ends */
	char said[RESULT_MAX];
	size_t n;
	struct rusage usage;
} server;

/* ---- the trial ---- */

static int model_of(json_t *trial)
{
	static const unsigned may[] = {
		[PTHREAD] = 1u << ECHO_THREADS | 1u << ECHO_LOOP |
			    1u << ECHO_PLAIN,
		[UTHREAD] = 1u << ECHO_EPOLL | 1u << ECHO_URING |
			    1u << ECHO_PLAIN,
		[GO] = 1u << ECHO_NET,
		[TOKIO] = 1u << ECHO_NET,
	};
	int model = trial_choice(trial, "model", models);

	echo.model = models[model];
	echo.by = (enum echo_by)trial_choice(trial, "by", ways);
	if (!(may[model] & 1u << echo.by))
		probe_fail(EINVAL, "by", "there is no server %s of model %s",
			   ways[echo.by], echo.model);
	return model;
}

static int read_trial(json_t *trial)
{
	int model = model_of(trial), n;

	echo.trial = trial;
	echo.connections =
		(int)trial_int(trial, "connections", 1, ECHO_CONNECTIONS_MAX);
	echo.bytes = (unsigned)trial_int(trial, "bytes", ECHO_BYTES_MIN,
					 ECHO_BYTES_MAX);
	echo.closed_ns = trial_int(trial, "closed_ns", 1000000, 100000000000);
	echo.open_ns = trial_int(trial, "open_ns", 1000000, 100000000000);
	echo.rate = trial_int(trial, "rate", 1, 10000000);
	if ((double)echo.rate * (double)echo.open_ns / 1e9 >
	    ECHO_REQUESTS_MAX * 0.9)
		probe_fail(
			EINVAL, "open_ns",
			"%lld requests a second for %lld ns are more than the %d that fit",
			(long long)echo.rate, (long long)echo.open_ns,
			ECHO_REQUESTS_MAX / 10 * 9);
	echo.hogs = (int)trial_int(trial, "hogs", 0, 64);
	echo.seed =
		(uint64_t)trial_int_or(trial, "seed", INT64_MIN, INT64_MAX, 0);
	echo.cpus = trial_cpus(trial, &n);
	echo.ncpus = (int)trial_int(trial, "workers", 1, 64);
	if (echo.ncpus > n)
		probe_fail(EINVAL, "workers", "%d workers and %d CPUs",
			   echo.ncpus, n);
	echo.load_cpu = echo.cpus[n - 1];
	echo.shared = echo.ncpus == n;
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	return model;
}

static __attribute__((noreturn, format(printf, 1, 2))) void
not_here(const char *fmt, ...)
{
	json_t *o = record_new("sample");
	char why[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	json_object_set_new(o, "model", json_string(echo.model));
	json_object_set_new(o, "wall_ns", json_integer(1));
	json_object_set_new(o, "measured", json_false());
	json_object_set_new(o, "unmeasured", json_string(why));
	record_print(o);
	record_end();
	if (server.pid)
		kill(server.pid, SIGKILL);
	exit(0);
}

/* Both processes have a descriptor for each connection. */
static void raise_limit(void)
{
	const rlim_t wanted = (rlim_t)echo.connections + DESCRIPTORS;
	struct rlimit own, more;

	if (getrlimit(RLIMIT_NOFILE, &own) || own.rlim_cur >= wanted)
		return;
	more.rlim_cur = wanted;
	more.rlim_max = own.rlim_max < wanted ? wanted : own.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &more))
		not_here(
			"%d connections need %llu descriptors, and the limit is %llu (ulimit -Hn)",
			echo.connections, (unsigned long long)wanted,
			(unsigned long long)own.rlim_max);
}

/* The plain server has a kernel thread for each connection, as it is. */
static void check_threads(void)
{
	char why[200];

	if (echo.by == ECHO_PLAIN && !strcmp(echo.model, models[PTHREAD]) &&
	    !plain_threads_fit(echo.connections, why, sizeof(why)))
		not_here("%s", why);
}

static void make_listener(void)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	echo.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (echo.listen_fd < 0 ||
	    bind(echo.listen_fd, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(echo.listen_fd, 4096))
		not_here("no TCP socket on 127.0.0.1: %s", strerror(errno));
}

/* ---- the server's side ---- */

static void begin_hogs(int model)
{
	const int n = echo.hogs * echo.ncpus;

	if (model == UTHREAD)
		hog_uthreads(n);
	else
		hog_threads(n);
}

/* Main of a server of C: it serves while this thread waits for the end. */
static __attribute__((noreturn)) void serve(int model, int control)
{
	json_t *o;
	ssize_t n;
	char c;

	confine_to(echo.cpus, echo.ncpus);
	/* Who sleeps in accept() has a thread for that. */
	if (echo.by == ECHO_THREADS)
		fcntl(echo.listen_fd, F_SETFL, 0);
	if (echo.by == ECHO_THREADS)
		serve_threads();
	else if (echo.by == ECHO_LOOP)
		serve_loop();
	else
		serve_uthreads();
	while ((n = read(control, &c, 1)))
		if (n > 0)
			begin_hogs(model);
		else if (errno != EINTR)
			break;
	o = record_new("sample");
	if (model == UTHREAD)
		tell_uthreads(o);
	record_print(o);
	/* Threads and hogs end with the process. */
	_exit(0);
}

/* Become the program of another runtime. */
static __attribute__((noreturn)) void exec_peer(int control)
{
	json_t *t = json_object(), *list = json_array();
	int in = memfd_create("io-server", 0), i;
	char path[PATH_MAX], *slash;
	ssize_t n;

	json_object_set_new(t, "schema", json_integer(PROBE_SCHEMA));
	json_object_set_new(t, "probe", json_string("io-server"));
	json_object_set_new(t, "model", json_string(echo.model));
	json_object_set_new(t, "policy", json_string("other"));
	json_object_set_new(t, "listen", json_integer(echo.listen_fd));
	json_object_set_new(t, "control", json_integer(control));
	json_object_set_new(t, "buffer", json_integer(ECHO_BUFFER));
	json_object_set_new(t, "hogs", json_integer(echo.hogs * echo.ncpus));
	for (i = 0; i < echo.ncpus; i++)
		json_array_append_new(list, json_integer(echo.cpus[i]));
	json_object_set_new(t, "cpus", list);
	if (in < 0 || json_dumpfd(t, in, 0) || lseek(in, 0, SEEK_SET) < 0 ||
	    dup2(in, STDIN_FILENO) < 0)
		probe_fail(errno, "model", "no input for the server: %s",
			   strerror(errno));
	n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	path[n < 0 ? 0 : n] = 0;
	slash = strrchr(path, '/');
	snprintf(slash ? slash + 1 : path, 64, "swtch-probe-%s", echo.model);
	execl(path, path, (char *)NULL);
	probe_fail(errno, "model", "%.180s: %s", path, strerror(errno));
}

/* Become the server that knows of no runtime, and that nobody tells of one. */
static __attribute__((noreturn)) void exec_plain(int model, int control)
{
	char at[3][16];
	char *args[] = { "echo", at[0], at[1], at[2], NULL };

	confine_to(echo.cpus, echo.ncpus);
	fcntl(echo.listen_fd, F_SETFL, 0);
	snprintf(at[0], sizeof(at[0]), "%d", echo.listen_fd);
	snprintf(at[1], sizeof(at[1]), "%d", control);
	snprintf(at[2], sizeof(at[2]), "%d", echo.hogs * echo.ncpus);
	plain_become(model == UTHREAD, args);
}

static void start_server(int model)
{
	int control[2], result[2];
	pid_t own = getpid();

	/* The server's ends outlive an exec. */
	if (pipe(control) || pipe(result) ||
	    fcntl(control[1], F_SETFD, FD_CLOEXEC) ||
	    fcntl(result[0], F_SETFD, FD_CLOEXEC))
		probe_fail(errno, "model", "no pipe: %s", strerror(errno));
	server.control = control[1];
	server.result = result[0];
	if (echo.by == ECHO_PLAIN)
		plain_listen();
	server.pid = fork();
	if (server.pid < 0)
		probe_fail(errno, "model", "no process: %s", strerror(errno));
	if (!server.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != own || dup2(result[1], STDOUT_FILENO) < 0)
			_exit(1);
		/* A session of its own: the kernel divides the CPU among
		 * sessions (autogroup), and a server with a thousand threads
		 * that are ready would have the load's share on its CPU, too. */
		setsid();
		close(control[1]);
		close(result[0]);
		close(result[1]);
		if (model == GO || model == TOKIO)
			exec_peer(control[0]);
		if (echo.by == ECHO_PLAIN)
			exec_plain(model, control[0]);
		serve(model, control[0]);
	}
	close(control[0]);
	close(result[1]);
	fcntl(server.result, F_SETFL, O_NONBLOCK);
	server.clock = (clockid_t)(~(unsigned)server.pid << 3 | 2);
}

/* ---- what the load sees of it ---- */

int64_t server_cpu(void)
{
	struct timespec t = { 0 };

	if (clock_gettime(server.clock, &t))
		server_check();
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What it has said by now; true: nothing more will come. */
static bool listen_to_server(void)
{
	ssize_t n;

	while (server.n < RESULT_MAX - 1) {
		n = read(server.result, server.said + server.n,
			 RESULT_MAX - 1 - server.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return !n;
		server.n += (size_t)n;
	}
	return true;
}

/* The record of that kind among what it said, or NULL. */
static json_t *record_of(const char *kind)
{
	char *line = server.said, *end;

	for (; (end = memchr(line, '\n',
			     (size_t)(server.said + server.n - line)));
	     line = end + 1) {
		json_t *o = json_loadb(line, (size_t)(end - line), 0, NULL);
		const char *own = json_string_value(json_object_get(o, "kind"));

		if (own && !strcmp(own, kind))
			return o;
		json_decref(o);
	}
	return NULL;
}

static __attribute__((noreturn)) void gone(int status)
{
	json_t *error;
	char why[160] = "";

	server.pid = 0;
	listen_to_server();
	if (echo.by == ECHO_PLAIN)
		plain_over(why, sizeof(why));
	error = record_of("error");
	if (error) {
		record_print(error);
		exit(2);
	}
	if (WIFSIGNALED(status))
		probe_fail(EPIPE, "model", "the server died of signal %d%s%s",
			   WTERMSIG(status), *why ? ": " : "", why);
	probe_fail(EPIPE, "model", "the server ended with status %d%s%s",
		   WEXITSTATUS(status), *why ? ": " : "", why);
}

void server_check(void)
{
	int status;

	if (server.pid && waitpid(server.pid, &status, WNOHANG) == server.pid)
		gone(status);
}

static void begin_hogging(void)
{
	const struct timespec settle = { .tv_nsec = SETTLE_NS };

	if (!echo.hogs)
		return;
	if (write(server.control, "h", 1) != 1) {
		server_check();
		probe_fail(errno, "hogs", "the server cannot be told: %s",
			   strerror(errno));
	}
	nanosleep(&settle, NULL);
}

static json_t *end_server(void)
{
	struct pollfd p = { .fd = server.result, .events = POLLIN };
	const int64_t until = clock_ns() + END_MS * INT64_C(1000000);
	int status = 0, left;
	char why[160];
	json_t *said;

	close(server.control);
	while (!listen_to_server()) {
		left = (int)((until - clock_ns()) / 1000000);
		if (left <= 0 || poll(&p, 1, left) < 0) {
			kill(server.pid, SIGKILL);
			probe_fail(ETIMEDOUT, "model",
				   "the server did not end within %d s",
				   END_MS / 1000);
		}
	}
	while (wait4(server.pid, &status, 0, &server.usage) < 0 &&
	       errno == EINTR)
		;
	said = record_of("sample");
	if (status || !said)
		gone(status);
	server.pid = 0;
	if (echo.by == ECHO_PLAIN && plain_over(why, sizeof(why)))
		not_here("%s", why);
	return said;
}

/* Whether the server waits by io_uring, from its descriptors and not its word. */
static bool has_ring(void)
{
	char path[64], to[64];
	int fd, misses = 0;
	ssize_t n;

	/* The lowest are first; connections are far more. */
	for (fd = 0; misses < DESCRIPTORS && fd < INT_MAX; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", server.pid, fd);
		n = readlink(path, to, sizeof(to) - 1);
		misses = n < 0 ? misses + 1 : 0;
		to[n < 0 ? 0 : n] = 0;
		if (!strcmp(to, "anon_inode:[io_uring]"))
			return true;
	}
	return false;
}

/* Whether the plain server's threads are the model's: from the kernel, not its word. */
static void check_plain(void)
{
	const bool uthreads = !strcmp(echo.model, models[UTHREAD]);

	if (plain_has_library(server.pid) != uthreads)
		probe_fail(EINVAL, "model",
			   "the server runs %s libuthread-pthread.so",
			   uthreads ? "without" : "with");
}

static void check_back_end(void)
{
	bool ring;

	if (echo.by == ECHO_PLAIN)
		return check_plain();
	if (strcmp(echo.model, "uthread"))
		return;
	ring = has_ring();
	if (echo.by == ECHO_URING && !ring)
		not_here(
			"the runtime has no io_uring here: it was built without, or the kernel refuses it (kernel.io_uring_disabled, seccomp)");
	if (echo.by == ECHO_EPOLL && ring)
		probe_fail(
			EINVAL, "by",
			"the runtime waits by io_uring where epoll was asked");
}

/* ---- the trial as a whole ---- */

void probe_echo(json_t *trial)
{
	const int model = read_trial(trial);
	json_t *o, *said;
	int64_t begin, threads;

	raise_limit();
	check_threads();
	make_listener();
	start_server(model);
	signal(SIGPIPE, SIG_IGN);
	if (!pin_to(echo.load_cpu))
		probe_fail(errno, "cpus", "CPU %d is not to be had",
			   echo.load_cpu);
	load_connect();
	check_back_end();
	begin_hogging();
	threads = plain_threads(server.pid);
	o = record_new("sample");
	json_object_set_new(o, "model", json_string(echo.model));
	begin = clock_ns();
	load_closed(o);
	load_open(o);
	json_object_set_new(o, "wall_ns", json_integer(clock_ns() - begin));
	load_end(o);
	said = end_server();
	json_object_del(said, "kind");
	json_object_del(said, "schema");
	json_object_del(said, "model");
	json_object_del(said, "wall_ns");
	json_object_update(o, said);
	json_decref(said);
	json_object_set_new(o, "measured", json_true());
	json_object_set_new(o, "connections", json_integer(echo.connections));
	json_object_set_new(o, "server_threads", json_integer(threads));
	json_object_set_new(o, "server_cpus", json_integer(echo.ncpus));
	json_object_set_new(o, "load_apart", json_boolean(!echo.shared));
	json_object_set_new(o, "server_nvcsw",
			    json_integer(server.usage.ru_nvcsw));
	json_object_set_new(o, "server_nivcsw",
			    json_integer(server.usage.ru_nivcsw));
	record_print(o);
	record_end();
	free(echo.cpus);
}
