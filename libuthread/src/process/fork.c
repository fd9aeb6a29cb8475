/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - fork() by a uthread, by a plain pthread, by main.
 *
 * glibc's fork() runs the program's handlers (pthread_atfork), takes the locks
 * of stdio and malloc, makes the child, and runs the handlers again. What is
 * ours to do about it stands in three handlers of our own, which glibc runs the
 * nearest to the clone:
 *
 *	prepare   the program's, the last first	  on the uthread's own TLS,
 *		  ...				  outside of our locks: they
 *		  			  may wait, be stopped, move
 *		  ours				  takes our locks, changes to
 *						  the block that glibc knows
 *	clone					  a region: no tick moves it
 *	parent,   ours				  back, and all is given back
 *	child	  the program's, the first first  as above
 *
 * Handlers run backwards before and forwards after, so ours have to be the
 * first that anybody registers. All registering goes through one function of
 * libc's, __register_atfork(), which is interposed: it registers ours before it
 * passes on whatever comes first. The order among the program's own, handlers
 * that register others, and those of a library that is closed are glibc's
 * business as ever. The same three also serve who calls glibc's fork() from
 * within (daemon(), forkpty()).
 *
 * The clone runs on a block that is the kernel thread's and no uthread's, because
 * glibc's child makes that one the only member of its list of threads, gives
 * the kernel its robust list, and the kernel writes the new thread id there.
 *
 * In the child only the caller lives; start.c makes the runtime fit for that.
 *
 * Which locks: those that guard what must be whole in the child, where nobody
 * would finish it. Queues and deadlines need not be: they are emptied there.
 * The list of modules is guarded by a lock to park for, taken before the rest,
 * so there is one fork at a time; and who wants one of the others while a fork
 * has them, which may be for long, parks for that one (fork_gate_wait()).
 *
 * Rejected: a list of the program's handlers of our own, with fork() interposed
 * (what of daemon(), and of a library that is closed?); our handlers registered
 * at the start of the runtime (the program's of before ran on the borrowed
 * block, where uthread_self() is somebody else); interposing fork() alone.
 */
#include "base/interpose.h"
#include "base/ksignal.h"
#include "base/left.h"
#include "base/san.h"
#include "io/io.h"
#include "preempt/preempt.h"
#include "process/process.h"
#include "sched/ask.h"
#include "sched/waiter.h"
#include "signals/signals.h"
#include "stack/stack.h"
#include "tls/tls.h"

#define SPARE_WAIT_NS 50000 /* between two looks for a spare */

typedef void (*handler_fn)(void);

static int (*next_register)(handler_fn, handler_fn, handler_fn, void *);
static pid_t (*next_fork)(void);
static pid_t (*next_bare_fork)(void);

/* ---- libc's block ---- */

/*
 * Words of the TLS block in use. Never inlined, so that no address of them is
 * kept across the exchange of the thread pointer.
 *
 * forking	on libc's block: the uthread that forks
 * failed	on the uthread's own: errno of the last fork that failed
 */
static __thread struct uthread *forking
	__attribute__((tls_model("initial-exec")));
static __thread int failed __attribute__((tls_model("initial-exec")));

static __attribute__((noinline)) void set_forking(struct uthread *me)
{
	barrier();
	forking = me;
}

static __attribute__((noinline)) struct uthread *get_forking(void)
{
	barrier();
	return forking;
}

static __attribute__((noinline)) void set_errno(int err)
{
	barrier();
	errno = err;
}

static __attribute__((noinline)) int get_errno(void)
{
	barrier();
	return errno;
}

static __attribute__((noinline)) void set_failed(int err)
{
	barrier();
	failed = err;
}

static void borrow(struct libc_block *b, uintptr_t tp)
{
	b->mine = arch_tp();
	b->away = b->mine != tp;
	if (b->away)
		arch_set_tp(tp);
}

void libc_block_enter(struct libc_block *b)
{
	const struct worker *w = worker_current();

	borrow(b, w ? w->libc_tp : arch_tp());
}

/*
 * For the clone: the worker's own block, unless we are on the one that glibc
 * knows. They are the same but for the worker that is main's kernel thread. There
 * main may hold what fork() waits for, and go on elsewhere, on its block; and
 * the one built for that worker is as good: glibc's child only unlinks it, links
 * it into its list, and has the kernel write to it.
 */
static void fork_block_enter(struct libc_block *b)
{
	const struct worker *w = worker_current();

	borrow(b, w && arch_tp() != w->libc_tp ? w->tp : arch_tp());
}

void libc_block_leave(const struct libc_block *b)
{
	if (b->away)
		arch_set_tp(b->mine);
}

/* ---- around the clone ---- */

/* One fork at a time, so these are its. */
static struct libc_block block;
static uint64_t mask; /* of a plain pthread, which blocks all meanwhile */

static void fork_lock(void)
{
	store_relaxed(&fork_gate, 1);
	keys_fork_lock();
	stack_fork_lock();
	listed_fork_lock();
}

static void fork_unlock(void)
{
	store_relaxed(&fork_gate, 0);
	listed_fork_unlock();
	stack_fork_unlock();
	keys_fork_unlock();
}

static void wait_a_moment(const struct uthread *me)
{
	uint32_t never = 0;

	if (me && rt.tick_ns && uthread_on_own_tls(me))
		waiter_sleep(now_ns() + SPARE_WAIT_NS);
	else
		futex_wait(&never, 0, now_ns() + SPARE_WAIT_NS); /* no point */
}

/*
 * With shared TLS fork() must not switch: its caller has never heard of us, and
 * would find another's thread_local variables. Without ticks who has the lock
 * is at work elsewhere. With ticks there is nothing to keep, but that it goes
 * on with the worker it had, as when it is stopped.
 */
static void prepare_shared(struct uthread *me)
{
	int32_t bound;

	if (!rt.tick_ns) {
		while (!runtime_fork_trylock())
			wait_a_moment(me);
		return;
	}
	region_enter();
	bound = me->bound;
	me->bound = me->worker->index;
	region_leave();
	runtime_fork_lock();
	while (!spare_fork_begin())
		waiter_sleep(now_ns() + SPARE_WAIT_NS);
	me->bound = bound;
}

/*
 * A handler may fork, too, and would wait for what the fork has that it
 * interrupted. In a region a uthread's wait for the end of that; a plain pthread's
 * are blocked.
 */
static void fork_prepare(void)
{
	const uint64_t all = ~(KSIG_FAULTS | KSIG_LIBC);
	struct uthread *me = uthread_current();
	uint64_t old = 0;

	if (!me)
		ksig_mask(SIG_BLOCK, &all, &old);
	if (me && !uthread_on_own_tls(me)) {
		prepare_shared(me);
	} else {
		runtime_fork_lock();
		while (me && !spare_fork_begin())
			waiter_sleep(now_ns() + SPARE_WAIT_NS);
	}
	if (me)
		tls_extra_listed(false);
	/* Left on this block in parent and child: no tick may move us while
	 * we borrow libc's. The locks are taken and given back there. */
	for (;;) {
		region_enter();
		if (runtime_start_trylock())
			break;
		region_leave();
		wait_a_moment(me);
	}
	mask = old;
	if (me)
		uthread_become(me, UT_FORKING);
	fork_block_enter(&block);
	fork_lock();
	set_forking(me);
	if (block.away)
		set_errno(0);
}

/* Back on its own block. */
static void fork_done(struct uthread *me)
{
	libc_block_leave(&block);
	if (me)
		uthread_become(me, UT_RUNNING);
}

static void fork_parent(void)
{
	struct uthread *me = get_forking();
	const uint64_t old = mask;
	int err = get_errno();

	fork_unlock();
	if (me)
		spare_fork_end();
	fork_done(me);
	spare_has_child();
	io_shared();
	/* libc has looked up already where to put it, on arm64, and will put
	 * it there: on the other block. */
	if (block.away && err) {
		set_errno(err);
		set_failed(err);
	}
	if (me)
		ask_look(me);
	runtime_start_unlock();
	region_leave(); /* handlers that waited run here */
	tls_extra_listed(true);
	runtime_fork_unlock();
	if (!me)
		ksig_mask(SIG_SETMASK, &old, NULL);
}

static void fork_child(void)
{
	struct uthread *me = get_forking();

	fork_unlock();
	listed_forked();
	runtime_forked(me);
	fork_done(me);
	region_leave();
	/* It may be the one that libc runs this process on. */
	if (me && me->worker->libc_tp != me->worker->tp)
		tls_extra_listed(true);
	if (!me)
		ksig_mask(SIG_SETMASK, &mask, NULL);
}

/* ---- libc's functions ---- */

extern void *__dso_handle __attribute__((visibility("hidden")));

/* Ours are the first: before any other is registered. Once that is done nobody
 * takes the lock: a child of another's fork would find it taken for ever. */
int fork_setup(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool done;

	if (likely(load_acquire(&done))) /* pairs: the store below */
		return 0;
	pthread_mutex_lock(&lock);
	if (!next_register) {
		NEXT(next_register, "__register_atfork");
		NEXT(next_fork, "fork");
		NEXT(next_bare_fork, "_Fork");
	}
	if (!done && next_register &&
	    !next_register(fork_prepare, fork_parent, fork_child,
			   &__dso_handle))
		store_release(&done, true); /* pairs: the load above */
	pthread_mutex_unlock(&lock);
	return done ? 0 : EAGAIN;
}

AT_START static void setup(void)
{
	fork_setup();
}

#if !UTHREAD_TSAN /* which calls it before any code with its checks may run */
/* What pthread_atfork() calls, which every program has a copy of. */
EXPORT int __register_atfork(handler_fn prepare, handler_fn parent,
			     handler_fn child, void *dso);
int __register_atfork(handler_fn prepare, handler_fn parent, handler_fn child,
		      void *dso)
{
	if (fork_setup())
		return ENOMEM;
	return next_register(prepare, parent, child, dso);
}
#endif

EXPORT pid_t fork(void)
{
	pid_t pid;

	if (fork_setup())
		return errno = ENOMEM, -1;
	set_failed(0);
	pid = next_fork();
	if (!pid)
		left_trim();
	/* The program's handlers may have changed it since. */
	if (pid < 0 && failed)
		errno = failed;
	return pid;
}

/*
 * In the child, in a region: its thread is nobody's worker and no uthread. Who waits
 * sleeps in the kernel. What would park has the parent's epoll, which is shared, and its
 * uthreads, which would go on in both. Returns its mask, which was `now`.
 */
static uint64_t become_nobody(uint64_t now)
{
	struct here *h = here_now();
	const struct worker *w = h->worker;

	/* What waits for the end of the region waits for the parent. */
	if (w && w->deferred)
		now = w->mask_kept;
	h->self = NULL;
	h->worker = NULL;
	store_relaxed(&h->pending, 0);
	return now;
}

/* The one without handlers: in its child nothing of ours may be called, but
 * what POSIX allows there, sigaction() among it. */
EXPORT pid_t _Fork(void);
pid_t _Fork(void)
{
	struct libc_block b;
	uint64_t actions;
	pid_t pid;
	int err;

	if (!next_bare_fork && (fork_setup() || !next_bare_fork))
		return errno = ENOSYS, -1;
	region_enter();
	actions = actions_lock();
	fork_block_enter(&b);
	pid = next_bare_fork();
	err = get_errno();
	libc_block_leave(&b);
	if (!pid) {
		/* What it was sent already comes behind that, and is its own. */
		actions = become_nobody(actions);
		region_leave();
		actions_unlock(actions);
		return 0;
	}
	actions_unlock(actions);
	if (pid < 0)
		set_errno(err);
	region_leave();
	return pid;
}
