// SPDX-License-Identifier: Apache-2.0
/*
 * ring.c - a token goes round among a few threads, each of which waits for it
 * and hands it on. With two of them on one CPU, a hand-over is a switch; with
 * each on a CPU of its own, it is a wake-up across.
 *
 *   pipe, socket, eventfd   read blocks, write wakes
 *   futex                   a word of shared memory, FUTEX_WAIT and _WAKE
 *   cond                    a mutex and a condition variable for each member
 *   signal                  a blocked signal, sigwaitinfo() and tgkill()
 *   yield                   sched_yield() until the token is there
 *   spin                    no system call at all; the floor of two CPUs
 *
 * Every member counts its own switches from before the first lap to behind the
 * last. On one CPU each hand-over is one switch at least, which the lab's gate
 * looks at; `yield` may need several.
 *
 * `barrier` asks the kernel for an indirect-branch prediction barrier whenever a
 * member is switched to or from (prctl(2), PR_SET_SPECULATION_CTRL): of one
 * member, or of both. A kernel that has no such control says why, in the sample.
 *
 * Rejected: one pipe for all (the kernel wakes whom it likes), loops of a fixed
 * time (their number would not be known to the gate).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "switching/ring.h"

#ifndef PR_SET_SPECULATION_CTRL
#define PR_GET_SPECULATION_CTRL 52
#define PR_SET_SPECULATION_CTRL 53
#endif
#ifndef PR_SPEC_INDIRECT_BRANCH
#define PR_SPEC_INDIRECT_BRANCH 1
#endif
#ifndef PR_SPEC_DISABLE
#define PR_SPEC_DISABLE (1UL << 2)
#endif

#define SIGNAL SIGUSR1

enum how {
	HOW_PIPE,
	HOW_SOCKET,
	HOW_EVENTFD,
	HOW_FUTEX,
	HOW_COND,
	HOW_SIGNAL,
	HOW_YIELD,
	HOW_SPIN,
};

static const char *const hows[] = { "pipe",  "socket", "eventfd",
				    "futex", "cond",   "signal",
				    "yield", "spin",   NULL };

/* What a member is given the token by; on cache lines of its own. */
struct slot {
	uint32_t word;
	pid_t pid, tid;
	int in, out; /* file descriptors of this member's end, of the giver's */
	pthread_mutex_t mutex;
	pthread_cond_t cond;
} __attribute__((aligned(128)));

struct shared {
	struct ring ring;
	enum how how;
	int fenced; /* so many members ask for the barrier */
	int fence_errno;
	int64_t fence_state;
	pthread_barrier_t all_there;
	int64_t begin_ns, end_ns;
	int64_t *took;
	struct slot slot[RING_MEMBERS_MAX];
	struct thread_result results[RING_MEMBERS_MAX];
};

static struct shared *sh;

/* ---- giving and taking ---- */

static void must(bool ok, const char *what)
{
	if (!ok)
		probe_fail(errno, "by", "%s: %s", what, strerror(errno));
}

static void give(int to)
{
	static const uint64_t one = 1;
	struct slot *s = &sh->slot[to];

	switch (sh->how) {
	case HOW_PIPE:
	case HOW_SOCKET:
		must(write(s->out, &one, 1) == 1, "write");
		break;
	case HOW_EVENTFD:
		must(write(s->out, &one, 8) == 8, "write");
		break;
	case HOW_COND:
		pthread_mutex_lock(&s->mutex);
		s->word = 1;
		pthread_cond_signal(&s->cond);
		pthread_mutex_unlock(&s->mutex);
		break;
	case HOW_SIGNAL:
		must(!syscall(SYS_tgkill, s->pid, s->tid, SIGNAL), "tgkill");
		break;
	case HOW_FUTEX:
	case HOW_YIELD:
	case HOW_SPIN:
		/* Pairs with the acquire in take(). */
		__atomic_store_n(&s->word, 1, __ATOMIC_RELEASE);
		if (sh->how == HOW_FUTEX)
			syscall(SYS_futex, &s->word, FUTEX_WAKE, 1, NULL, NULL,
				0);
		break;
	}
}

static void take(int me)
{
	struct slot *s = &sh->slot[me];
	uint64_t token;
	sigset_t set;

	switch (sh->how) {
	case HOW_PIPE:
	case HOW_SOCKET:
		must(read(s->in, &token, 1) == 1, "read");
		return;
	case HOW_EVENTFD:
		must(read(s->in, &token, 8) == 8, "read");
		return;
	case HOW_COND:
		pthread_mutex_lock(&s->mutex);
		while (!s->word)
			pthread_cond_wait(&s->cond, &s->mutex);
		s->word = 0;
		pthread_mutex_unlock(&s->mutex);
		return;
	case HOW_SIGNAL:
		sigemptyset(&set);
		sigaddset(&set, SIGNAL);
		while (sigwaitinfo(&set, NULL) != SIGNAL)
			must(errno == EINTR, "sigwaitinfo");
		return;
	case HOW_FUTEX:
	case HOW_YIELD:
	case HOW_SPIN:
		break;
	}
	/* Pairs with the release in give(). */
	while (!__atomic_load_n(&s->word, __ATOMIC_ACQUIRE)) {
		if (sh->how == HOW_FUTEX)
			syscall(SYS_futex, &s->word, FUTEX_WAIT, 0, NULL, NULL,
				0);
		else if (sh->how == HOW_YIELD)
			sched_yield();
	}
	__atomic_store_n(&s->word, 0, __ATOMIC_RELAXED);
}

static void slot_init(struct slot *s)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;
	int fds[2] = { -1, -1 };

	if (sh->how == HOW_PIPE)
		must(!pipe(fds), "pipe");
	if (sh->how == HOW_SOCKET)
		must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
	if (sh->how == HOW_EVENTFD) {
		fds[0] = fds[1] = eventfd(0, 0);
		must(fds[0] >= 0, "eventfd");
	}
	s->in = fds[0];
	s->out = fds[1];
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&s->mutex, &mutex);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&s->cond, &cond);
}

/* ---- a member ---- */

static void ask_for_fence(void)
{
	long state;

	if (prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH,
		  PR_SPEC_DISABLE, 0, 0))
		sh->fence_errno = errno;
	state = prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, 0, 0,
		      0);
	sh->fence_state = state < 0 ? -errno : state;
}

static void go_round(int me, const char *memory)
{
	const struct ring *r = &sh->ring;
	int next = (me + 1) % r->members;
	int64_t batch, lap, begin, now;

	if (me) {
		for (lap = ring_laps(r); lap; lap--) {
			take(me);
			ring_touch(memory, r->pages);
			give(next);
		}
		return;
	}
	begin = clock_ns();
	for (batch = 0; batch <= r->batches; batch++) {
		for (lap = r->laps; lap; lap--) {
			give(next);
			take(me);
			ring_touch(memory, r->pages);
		}
		now = clock_ns();
		if (batch)
			sh->took[batch - 1] = now - begin;
		begin = now;
	}
}

static void member(void *arg, int me)
{
	struct thread_result *r = &sh->results[me];
	struct slot *s = &sh->slot[me];
	size_t bytes = (size_t)(sh->ring.pages + 1) * 4096;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct usage before;
	sigset_t set;

	(void)arg;
	must(memory != MAP_FAILED, "mmap");
	memset(memory, 1, bytes);
	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	s->pid = r->pid = getpid();
	s->tid = thread_id();
	r->tid = s->tid;
	r->cpu = sh->ring.cpus[me % sh->ring.ncpus];
	r->has_usage = true;
	r->pinned = pin_to(r->cpu);
	if (me < sh->fenced)
		ask_for_fence();
	pthread_barrier_wait(&sh->all_there);
	usage_now(&before);
	r->start_ns = clock_ns();
	go_round(me, memory);
	r->end_ns = clock_ns();
	usage_now(&r->usage);
	usage_sub(&r->usage, &before);
	r->cpu_end = sched_getcpu();
	munmap(memory, bytes);
}

/* ---- the trial ---- */

static void *pthread_member(void *arg)
{
	member(NULL, (int)(intptr_t)arg);
	return NULL;
}

static void by_pthreads(void)
{
	pthread_t all[RING_MEMBERS_MAX];
	int i, err;

	for (i = 0; i < sh->ring.members; i++) {
		err = pthread_create(&all[i], NULL, pthread_member,
				     (void *)(intptr_t)i);
		if (err)
			no_more_threads("pthread", i, sh->ring.members, err);
	}
	for (i = 0; i < sh->ring.members; i++)
		pthread_join(all[i], NULL);
}

static void kernel_ring(const struct ring *r, json_t *trial, bool processes,
			json_t *o, int64_t *took)
{
	static const char *const fences[] = { "none", "one", "all", NULL };
	pthread_barrierattr_t attr;
	json_t *threads = json_array();
	int i;

	sh->ring = *r;
	sh->took = took;
	sh->how = (enum how)trial_choice(trial, "by", hows);
	if (sh->how == HOW_SPIN && r->ncpus < r->members)
		probe_fail(EINVAL, "by", "who spins needs a CPU of its own");
	if (json_object_get(trial, "barrier"))
		sh->fenced = (int[]){
			0, 1, r->members
		}[trial_choice(trial, "barrier", fences)];
	for (i = 0; i < r->members; i++)
		slot_init(&sh->slot[i]);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&sh->all_there, &attr, (unsigned)r->members);
	if (processes)
		processes_run(r->members, member, NULL);
	else
		by_pthreads();
	for (i = 0; i < r->members; i++) {
		if (!sh->results[i].pinned)
			probe_fail(EINVAL, "cpus", "CPU %d is not to be had",
				   sh->results[i].cpu);
		json_array_append_new(threads,
				      record_thread(i, &sh->results[i]));
	}
	json_object_set_new(o, "threads", threads);
	if (sh->fenced) {
		json_object_set_new(o, "fence_errno",
				    json_integer(sh->fence_errno));
		json_object_set_new(o, "fence_state",
				    json_integer(sh->fence_state));
	}
}

void ring_record(json_t *o, const struct ring *r, const int64_t *took)
{
	/* On one CPU somebody must have been switched to for each of them. */
	const char *name = r->ncpus == 1 ? "handovers" : "passes";
	struct dist d;
	int64_t i, sum = 0;

	dist_init(&d, (size_t)r->batches);
	for (i = 0; i < r->batches; i++) {
		dist_add(&d, took[i]);
		sum += took[i];
	}
	json_object_set_new(o, "wall_ns", json_integer(sum));
	json_object_set_new(o, name, json_integer(ring_laps(r) * r->members));
	dist_record_each(o, "each", &d, r->laps * r->members);
}

void probe_ring(json_t *trial)
{
	static const char *const models[] = { "process",  "pthread",
					      "uthread",  "coroutine",
					      "ucontext", NULL };
	int model = trial_choice(trial, "model", models);
	struct ring r;
	json_t *o;
	int64_t *took;

	r.members = (int)trial_int(trial, "members", 2, RING_MEMBERS_MAX);
	r.batches = trial_int(trial, "batches", 1, 100000);
	r.laps = trial_int(trial, "laps", 1, 10000000);
	r.pages = (int)trial_int_or(trial, "pages", 0, RING_PAGES_MAX, 0);
	r.cpus = trial_cpus(trial, &r.ncpus);
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	confine_to(r.cpus, r.ncpus);
	sh = map_shared(sizeof(*sh));
	took = map_shared((size_t)r.batches * sizeof(*took));
	o = record_new("sample");
	json_object_set_new(o, "model", json_string(models[model]));
	if (model < 2)
		kernel_ring(&r, trial, model == 0, o, took);
	else if (model == 2)
		ring_of_uthreads(&r, trial, o, took);
	else
		ring_of_coroutines(&r, model == 4, o, took);
	ring_record(o, &r, took);
	record_print(o);
	record_end();
	free(r.cpus);
}
