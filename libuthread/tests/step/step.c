/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - run a program so that its uthreads are stopped at every possible
 * point:
 *
 *	step [-m TIMES] [-s SECONDS] PROGRAM [ARGUMENT...]
 *
 * The program is traced with all its threads and children. From time to time
 * a worker is taken and executes a stretch of single instructions, and before
 * an instruction that has not had TIMES (2) ticks yet it gets one: the same
 * signal with the same value as from its timer, so that the program cannot
 * tell, and the runtime does what it always does. Where that has been done
 * ticks come at random distances. So in a few seconds every instruction that a
 * worker executes, of the program, of the runtime, of libc, has had a tick
 * before it. After SECONDS (10; 0: no end) the program runs on freely. The
 * exit status is the program's; a line on standard error says how much was
 * done.
 *
 * Method: ptrace(2), one instruction a stop. The handler itself, in which the
 * signal is blocked, is passed over by a breakpoint register where the
 * machine has one (x86-64), else step by step. Ticks that come from the
 * program's timers meanwhile are kept until the next point; delivered at once,
 * they would follow each other without an instruction in between, because
 * stepping is a thousand times slower than the clock.
 *
 * Rejected: the trap flag and a SIGTRAP handler in the process (libc blocks all
 * signals in pthread_create() and fork(), and a trap there is fatal); a tick
 * by the runtime itself at each of its own exits (finds nothing between two
 * instructions, and is another program than the one that is shipped); a tick
 * before every single instruction (one in the last instructions of taking a
 * tick stops the uthread again, and again, until its stack is full).
 */
#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x5554u /* tick.c: of a tick's value, above the worker's index */
#define THREADS 4096
#define POINTS (1u << 20) /* a power of two */
#define LOOK_US 2000 /* from one stretch to the next */
#define STRETCH 3000 /* steps */
#define FRUITLESS 600 /* steps without a new point */
#define GAP 2000 /* between ticks at random, at most */
#define TRAP_FLAG 0x100ul /* x86-64 */
#define AGAIN 40 /* steps from a tick to one that was kept */

struct place {
	uintptr_t pc, sp, lr;
};

enum mode { RUNS, STEPS, HANDLES };

struct thread {
	pid_t tid; /* 0: free */
	enum mode mode;
	int index; /* of the worker, -1: none, or not known yet */
	bool called; /* asked to stop */
	bool sent; /* a tick goes with this step */
	bool owed; /* one came by itself */
	bool jumps; /* to the breakpoint */
	bool pinned;
	cpu_set_t cpus; /* where it may run otherwise */
	struct place was; /* before the step */
	uintptr_t restorer; /* where the handler returns to */
	uint32_t left, fruitless, since, gap;
};

static struct thread threads[THREADS];
static struct {
	uintptr_t pc;
	uint32_t ticks;
} points[POINTS];

static uint32_t times = 2;
static int tick_signal = SIGURG;
static int our_cpu;
static bool over;
static uint64_t random_state = 88172645463325252ull;
static struct {
	unsigned long steps, ticks, points, workers, children;
} done;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static struct thread *thread_of(pid_t tid)
{
	struct thread *unused = NULL;
	int i;

	for (i = 0; i < THREADS; i++) {
		if (threads[i].tid == tid)
			return &threads[i];
		if (!threads[i].tid && !unused)
			unused = &threads[i];
		if (!threads[i].tid && i > 64 && unused != &threads[i])
			break; /* they are reused from the start */
	}
	for (; i < THREADS; i++)
		if (threads[i].tid == tid)
			return &threads[i];
	if (!unused) {
		fprintf(stderr, "step: more than %d threads at a time\n",
			THREADS);
		exit(2);
	}
	memset(unused, 0, sizeof(*unused));
	unused->tid = tid;
	unused->index = -1;
	return unused;
}

/* The point's count, NULL: no room. */
static uint32_t *point_of(uintptr_t pc)
{
	uint64_t h = pc * 0x9e3779b97f4a7c15ull;
	uint32_t i, at;

	for (i = 0; i < 64; i++) {
		at = ((uint32_t)(h >> 40) + i) & (POINTS - 1);
		if (!points[at].pc)
			points[at].pc = pc;
		if (points[at].pc == pc)
			return &points[at].ticks;
	}
	return NULL;
}

/* ---- registers ---- */

static bool where(pid_t tid, struct place *p)
{
	struct user_regs_struct r;
	struct iovec v = { &r, sizeof(r) };

	if (ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)NT_PRSTATUS, &v))
		return false;
#if defined(__x86_64__)
	/* The kernel hides the flag if it is ours: this one came by a popf. */
	if (r.eflags & TRAP_FLAG) {
		r.eflags &= ~TRAP_FLAG;
		ptrace(PTRACE_SETREGSET, tid, (void *)(uintptr_t)NT_PRSTATUS,
		       &v);
	}
	p->pc = r.rip;
	p->sp = r.rsp;
	p->lr = 0;
#else
	p->pc = r.pc;
	p->sp = r.sp;
	p->lr = r.regs[30];
#endif
	return true;
}

/* At the handler's first instruction: where it will return to. */
static uintptr_t return_address(pid_t tid, const struct place *p)
{
#if defined(__x86_64__)
	errno = 0;
	return (uintptr_t)ptrace(PTRACE_PEEKDATA, tid, (void *)p->sp, NULL);
#else
	(void)tid;
	return p->lr;
#endif
}

/*
 * pushf writes the trap flag with which it was stepped to the stack, and the
 * popf that belongs to it would trap without us.
 */
static void forget_trap_flag(struct thread *t, const struct place *now)
{
#if defined(__x86_64__)
	const long byte = 0xff, pushf = 0x9c;
	long v;

	if (now->pc != t->was.pc + 1 || now->sp != t->was.sp - 8)
		return;
	v = ptrace(PTRACE_PEEKDATA, t->tid, (void *)t->was.pc, NULL);
	if ((v & byte) != pushf)
		return;
	v = ptrace(PTRACE_PEEKDATA, t->tid, (void *)now->sp, NULL);
	ptrace(PTRACE_POKEDATA, t->tid, (void *)now->sp,
	       (void *)(v & ~(long)TRAP_FLAG));
#else
	(void)t;
	(void)now;
#endif
}

/* Before a popf the kernel takes the trap flag for the program's own, and would
 * leave it in the signal's frame. */
static bool may_tick(pid_t tid, uintptr_t pc)
{
#if defined(__x86_64__)
	const long byte = 0xff, popf = 0x9d;

	return (ptrace(PTRACE_PEEKDATA, tid, (void *)pc, NULL) & byte) != popf;
#else
	(void)tid;
	(void)pc;
	return true;
#endif
}

/* 0: none. False: not on this machine. */
static bool set_breakpoint(pid_t tid, uintptr_t at)
{
#if defined(__x86_64__)
	const size_t dr = offsetof(struct user, u_debugreg);

	return !ptrace(PTRACE_POKEUSER, tid, (void *)(dr + 7 * 8), NULL) &&
	       (!at || (!ptrace(PTRACE_POKEUSER, tid, (void *)dr, (void *)at) &&
			!ptrace(PTRACE_POKEUSER, tid, (void *)(dr + 7 * 8),
				(void *)1)));
#else
	(void)tid;
	return !at;
#endif
}

/* ---- what a thread does next ---- */

static void go_on(struct thread *t, int sig)
{
	const bool step = t->mode != RUNS && !t->jumps;

	/* It may have been killed: then waitpid() tells. */
	ptrace(step ? PTRACE_SINGLESTEP : PTRACE_CONT, t->tid, NULL,
	       (void *)(uintptr_t)sig);
}

static void send_tick(struct thread *t)
{
	siginfo_t si;

	memset(&si, 0, sizeof(si));
	si.si_signo = tick_signal;
	si.si_code = SI_QUEUE;
	si.si_pid = t->tid;
	si.si_value.sival_int = (int)(MAGIC << 16 | (uint32_t)t->index);
	if (ptrace(PTRACE_SETSIGINFO, t->tid, NULL, &si)) {
		/* Not at such a stop: with the next step. */
		go_on(t, 0);
		return;
	}
	t->sent = true;
	t->owed = false;
	t->since = 0;
	t->gap = (uint32_t)(next_random() % GAP);
	done.ticks++;
	go_on(t, tick_signal);
}

/* Who is stepped runs where we do: from CPU to CPU a step takes three times as
 * long. */
static void stay_here(struct thread *t)
{
	cpu_set_t here;

	if (sched_getaffinity(t->tid, sizeof(t->cpus), &t->cpus))
		return;
	CPU_ZERO(&here);
	CPU_SET(our_cpu, &here);
	t->pinned = !sched_setaffinity(t->tid, sizeof(here), &here);
}

static void let_go(struct thread *t)
{
	if (t->pinned)
		sched_setaffinity(t->tid, sizeof(t->cpus), &t->cpus);
	t->pinned = false;
}

static void begin(struct thread *t)
{
	stay_here(t);
	where(t->tid, &t->was);
	t->mode = STEPS;
	t->left = STRETCH;
	t->fruitless = t->since = 0;
	t->gap = (uint32_t)(next_random() % GAP);
	go_on(t, 0);
}

/* Before an instruction, outside the handler. */
static void at_point(struct thread *t, uintptr_t pc)
{
	uint32_t *ticks = point_of(pc);
	const bool fresh = ticks && *ticks < times;

	t->since++;
	t->fruitless = fresh ? 0 : t->fruitless + 1;
	if ((over || !t->left || t->fruitless > FRUITLESS) &&
	    may_tick(t->tid, pc)) {
		t->mode = RUNS;
		set_breakpoint(t->tid, 0);
		let_go(t);
		if (t->owed)
			send_tick(t);
		else
			go_on(t, 0);
		return;
	}
	t->left -= !!t->left;
	if ((fresh || t->since > t->gap || (t->owed && t->since > AGAIN)) &&
	    may_tick(t->tid, pc)) {
		if (ticks)
			done.points += !(*ticks)++;
		send_tick(t);
	} else {
		go_on(t, 0);
	}
}

/* Was that the handler's first instruction, not one of the program's? */
static bool in_handler(pid_t tid)
{
	siginfo_t si;

	return !ptrace(PTRACE_GETSIGINFO, tid, NULL, &si) &&
	       si.si_code == SIGTRAP;
}

static void stepped(struct thread *t)
{
	struct place p;

	done.steps++;
	if (!where(t->tid, &p)) {
		go_on(t, 0);
		return;
	}
	forget_trap_flag(t, &p);
	t->was = p;
	if (t->sent) {
		t->sent = false;
		if (in_handler(t->tid)) {
			t->mode = HANDLES;
			t->restorer = return_address(t->tid, &p);
			t->jumps = set_breakpoint(t->tid, t->restorer);
			go_on(t, 0);
			return;
		}
	}
	if (t->mode == HANDLES) {
		/* Two instructions are left there: which call, and the call. */
		if (t->jumps && p.pc == t->restorer) {
			set_breakpoint(t->tid, 0);
			t->jumps = false;
		}
		if (p.pc - t->restorer < 12)
			t->restorer |= 1;
		else if (t->restorer & 1)
			t->mode = STEPS;
		if (t->mode == HANDLES) {
			go_on(t, 0);
			return;
		}
	}
	at_point(t, p.pc);
}

static bool is_tick(struct thread *t, int sig)
{
	siginfo_t si;
	uint32_t value;

	if (sig != tick_signal ||
	    ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &si) ||
	    (si.si_code != SI_TIMER && si.si_code != SI_QUEUE))
		return false;
	value = (uint32_t)si.si_value.sival_int;
	if (value >> 16 != MAGIC)
		return false;
	t->index = (int)(value & 0xffff);
	return true;
}

static void stopped(struct thread *t, int status)
{
	const int sig = WSTOPSIG(status), event = status >> 16;

	if (event == PTRACE_EVENT_STOP && sig != SIGTRAP) {
		ptrace(PTRACE_LISTEN, t->tid, NULL, NULL); /* SIGSTOP */
	} else if (event == PTRACE_EVENT_STOP && t->called) {
		t->called = false;
		if (t->mode == RUNS)
			begin(t);
		else
			go_on(t, 0);
	} else if (event) {
		done.children += event == PTRACE_EVENT_FORK ||
				 event == PTRACE_EVENT_VFORK;
		go_on(t, 0);
	} else if (sig == SIGTRAP && t->mode != RUNS) {
		stepped(t);
	} else if (t->mode == STEPS && is_tick(t, sig)) {
		t->owed = true;
		go_on(t, 0);
	} else {
		if (t->jumps) { /* a fault in the handler, say */
			set_breakpoint(t->tid, 0);
			t->jumps = false;
		}
		go_on(t, sig);
	}
}

/* ---- which threads are workers ---- */

static int worker_index(pid_t tid)
{
	char path[64], name[32] = "";
	int index = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", tid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fgets(name, sizeof(name), f) &&
	    sscanf(name, "uthread/%d", &index) != 1)
		index = -1;
	fclose(f);
	return index;
}

static void look(void)
{
	static int last;
	struct thread *t;
	int i;

	for (i = 0; i < THREADS; i++) {
		t = &threads[(last + 1 + i) % THREADS];
		if (!t->tid || t->mode != RUNS || t->called)
			continue;
		if (t->index < 0) {
			t->index = worker_index(t->tid);
			done.workers += t->index >= 0;
		}
		if (t->index < 0 ||
		    ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL))
			continue;
		t->called = true;
		last = (int)(t - threads);
		return;
	}
}

static volatile sig_atomic_t time_to_look;

static void on_alarm(int sig)
{
	(void)sig;
	time_to_look = 1;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the program ---- */

static int trace(pid_t child, double seconds)
{
	const struct itimerval every = { { 0, LOOK_US }, { 0, LOOK_US } };
	struct sigaction sa = { .sa_handler = on_alarm };
	const double end = now() + seconds;
	int status, result = 0;
	struct thread *t;
	pid_t tid;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (;;) {
		tid = waitpid(-1, &status, __WALL);
		if (time_to_look) {
			time_to_look = 0;
			if (seconds > 0 && now() > end)
				over = true;
			if (!over)
				look();
		}
		if (tid < 0 && errno == EINTR)
			continue;
		if (tid < 0)
			return result;
		t = thread_of(tid);
		if (WIFSTOPPED(status)) {
			stopped(t, status);
		} else {
			t->tid = 0;
			if (tid == child)
				result = status;
		}
	}
}

static pid_t start(char **argv)
{
	char go = 0;
	int p[2];
	pid_t pid;

	if (pipe(p)) {
		perror("step: pipe");
		exit(2);
	}
	pid = fork();
	if (!pid) {
		close(p[1]);
		if (read(p[0], &go, 1) != 1)
			_exit(2);
		close(p[0]);
		execvp(argv[0], argv);
		fprintf(stderr, "step: %s: %s\n", argv[0], strerror(errno));
		_exit(2);
	}
	close(p[0]);
	if (ptrace(PTRACE_SEIZE, pid, NULL,
		   (void *)(uintptr_t)(PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE |
				       PTRACE_O_TRACEFORK |
				       PTRACE_O_TRACEVFORK |
				       PTRACE_O_TRACEEXEC))) {
		fprintf(stderr, "step: ptrace is not allowed here: %s\n",
			strerror(errno));
		exit(77); /* a skipped test */
	}
	if (write(p[1], &go, 1) != 1)
		exit(2);
	close(p[1]);
	return pid;
}

int main(int argc, char **argv)
{
	const char *sig = getenv("UTHREAD_SIGNAL");
	cpu_set_t here;
	double seconds = 10;
	int c, status;
	pid_t pid;

	while ((c = getopt(argc, argv, "+m:s:")) != -1) {
		if (c == 'm')
			times = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 's')
			seconds = strtod(optarg, NULL);
		else
			return 2;
	}
	if (optind == argc) {
		fprintf(stderr,
			"usage: step [-m TIMES] [-s SECONDS] PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	if (sig)
		tick_signal = atoi(sig);
	random_state ^= (uint64_t)getpid() << 32;
	pid = start(argv + optind);
	our_cpu = sched_getcpu();
	CPU_ZERO(&here);
	CPU_SET(our_cpu, &here);
	sched_setaffinity(0, sizeof(here), &here);
	status = trace(pid, seconds);
	fprintf(stderr,
		"step: %lu ticks before %lu different instructions, in %lu steps of %lu workers and %lu children\n",
		done.ticks, done.points, done.steps, done.workers,
		done.children);
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "step: ended by signal %d\n", WTERMSIG(status));
		return 128 + WTERMSIG(status);
	}
	return WEXITSTATUS(status);
}
