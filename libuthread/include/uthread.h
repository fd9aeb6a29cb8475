/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread.h - user threads for C and C++, shaped like pthreads.
 *
 * Porting is a rename: uthread_create() is pthread_create() with another
 * kind of thread behind it. uthreads are scheduled in user space, M of them
 * on N workers (kernel threads). No init call is needed; the first
 * uthread_create() starts the workers. Every function may be called from a
 * uthread and from any plain pthread; a pthread that has to wait sleeps on a
 * futex. Main, where it starts the workers, goes on as a uthread.
 *
 * Errors: functions return 0 or an error number as pthreads do, and never
 * touch errno. A broken invariant (a corrupt object, unlock of a lock nobody
 * holds in a way that cannot be reported) ends the process with one line.
 *
 * Times are CLOCK_MONOTONIC: deadlines are absolute `struct timespec`,
 * durations are nanoseconds. uthread/sync.h, which comes with this header, has
 * calls for CLOCK_REALTIME, and the rest of the locks.
 *
 * Each uthread has its own libc TLS block by default (errno, malloc caches,
 * C++ exception state, thread_local). UTHREAD_TLS_SHARED is the light mode:
 * the thread uses the TLS of whatever worker runs it, so a thread_local
 * value, or errno, does not survive a switch.
 *
 * Environment, read once when the workers start:
 *   UTHREAD_WORKERS=N        1..1024, default: CPUs allowed to the process, or
 *                            what its cgroups allow, if less
 *   UTHREAD_STACK_SIZE=BYTES default stack (K, M suffixes), default 256K
 *   UTHREAD_TLS=own|shared   default TLS mode
 *   UTHREAD_TICK=[SOURCE:]TIME|off   preemption: worker, process or monitor,
 *                            100us to 1s, default worker:1ms
 *   UTHREAD_POLICY=fifo|priority|fair   who runs next, default fifo
 *   UTHREAD_PREEMPT=call|frame   how a uthread is stopped
 *   UTHREAD_SIGNAL=N         the tick's signal, default SIGURG, or another where
 *                            the program handles that
 *   UTHREAD_SPARES=N         workers more for those that sleep in the kernel,
 *                            0..4096, default 512
 *   UTHREAD_MAIN=0|1         0: main stays a plain pthread, 1: a uthread even
 *                            without ticks
 *   UTHREAD_PIN=1            worker i runs only on the i-th allowed CPU
 *   UTHREAD_IO=epoll|uring   who tells of descriptors, default epoll
 *   UTHREAD_GUARD=auto|madvise|mprotect   how stacks are guarded
 *   UTHREAD_DUMP=SIGNAL      at it all uthreads, with backtraces, on standard error
 * A value that makes no sense is reported in one line and the default used.
 */
#ifndef UTHREAD_H
#define UTHREAD_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct timespec; /* <time.h> leaves it out in strict C99 */

#define UTHREAD_VERSION "0.1.0"

#ifdef __cplusplus
#if defined(__GNUC__) && !defined(__clang__)
/* A function and a struct of one name, as stat(2) and struct stat: g++ warns. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
extern "C" {
#endif

/* In uthread/sync.h. */
struct uthread_condattr;
struct uthread_barrierattr;

/* ---- threads ---------------------------------------------------------- */

/* A handle. Valid until the thread is joined, or ends if it is detached. */
typedef struct uthread *uthread_t;

enum {
	UTHREAD_CREATE_JOINABLE = 0,
	UTHREAD_CREATE_DETACHED = 1,
};

enum uthread_tls {
	UTHREAD_TLS_DEFAULT = 0, /* own where possible, or UTHREAD_TLS */
	UTHREAD_TLS_OWN = 1, /* a TLS block of its own */
	UTHREAD_TLS_SHARED = 2, /* the worker's TLS block */
};

#define UTHREAD_STACK_MIN 16384u /* bytes, smallest accepted stack */
#define UTHREAD_NAME_MAX 16 /* bytes, terminating NUL included */
#define UTHREAD_WORKER_ANY (-1)

typedef struct uthread_attr {
	uint64_t _u[8];
} uthread_attr_t;

/* For the policies of those names; uthread_setpriority() says more. */
int uthread_attr_setpriority(uthread_attr_t *attr, int priority);
int uthread_attr_getpriority(const uthread_attr_t *attr, int *priority);
int uthread_attr_setweight(uthread_attr_t *attr, unsigned weight);
int uthread_attr_getweight(const uthread_attr_t *attr, unsigned *weight);
/* Defaults: default stack, joinable, no name, default TLS, any worker. */
int uthread_attr_init(uthread_attr_t *attr);
int uthread_attr_destroy(uthread_attr_t *attr);
/* Usable bytes; rounded up. EINVAL below UTHREAD_STACK_MIN or above 1 GiB. */
int uthread_attr_setstacksize(uthread_attr_t *attr, size_t bytes);
int uthread_attr_getstacksize(const uthread_attr_t *attr, size_t *bytes);
int uthread_attr_setdetachstate(uthread_attr_t *attr, int state);
int uthread_attr_getdetachstate(const uthread_attr_t *attr, int *state);
/* Copied; ERANGE when longer than UTHREAD_NAME_MAX - 1. */
int uthread_attr_setname(uthread_attr_t *attr, const char *name);
int uthread_attr_getname(const uthread_attr_t *attr, char *buf, size_t len);
int uthread_attr_settls(uthread_attr_t *attr, enum uthread_tls mode);
int uthread_attr_gettls(const uthread_attr_t *attr, enum uthread_tls *mode);
/* Run only on this worker (0..uthread_workers()-1), or UTHREAD_WORKER_ANY.
 * A number out of range is found by uthread_create(): EINVAL. One exception:
 * while that worker sleeps in the kernel with a uthread that cannot be
 * stopped, one that a tick stopped inside libc goes on elsewhere until it has
 * left libc, because it may hold the very lock that is waited for. */
int uthread_attr_setworker(uthread_attr_t *attr, int worker);
int uthread_attr_getworker(const uthread_attr_t *attr, int *worker);

/*
 * Start fn(arg) as a new uthread; attr may be NULL. *thread is set before
 * the thread can run. EAGAIN: no memory, no guard or no worker to be had.
 * EINVAL: bad attributes. ENOTSUP: UTHREAD_TLS_OWN asked where the libc or
 * CPU cannot do it.
 */
int uthread_create(uthread_t *thread, const uthread_attr_t *attr,
		   void *(*fn)(void *), void *arg);
/* Wait for the end; the handle is gone afterwards. value may be NULL.
 * EDEADLK: itself, or two that join each other. EINVAL: detached or already
 * being joined. ESRCH: no such handle, or gone and not yet used again. */
int uthread_join(uthread_t thread, void **value);
/* As join, but ETIMEDOUT once CLOCK_MONOTONIC reaches the deadline. */
int uthread_timedjoin(uthread_t thread, void **value,
		      const struct timespec *deadline);
/* EBUSY while it is running. */
int uthread_tryjoin(uthread_t thread, void **value);
/* EINVAL: already detached or being joined. ESRCH: as join. */
int uthread_detach(uthread_t thread);
/* End the calling uthread. C++ destructors of its frames, then key
 * destructors and TLS destructors run. Outside a uthread: abort. The process
 * ends with its last thread, if main has left so or by pthread_exit(), or in
 * the child of a fork by another than main: status 0. */
void uthread_exit(void *value) __attribute__((__noreturn__));
/* The calling uthread, NULL in a plain pthread: in main too, until it has
 * started the workers. What is asked or told of that is ESRCH. */
uthread_t uthread_self(void);
int uthread_equal(uthread_t a, uthread_t b);
/* Let others run on this worker. In a plain pthread: sched_yield(). */
int uthread_yield(void);
/* Sleep at least ns nanoseconds. */
int uthread_sleep(uint64_t ns);
int uthread_sleep_until(const struct timespec *deadline);
int uthread_setname(uthread_t thread, const char *name);
int uthread_getname(uthread_t thread, char *buf, size_t len);
/* A number unique among live uthreads; what gettid() would be. 0 for NULL. */
uint32_t uthread_id(uthread_t thread);
/* Lowest address and usable size of a thread's stack. */
int uthread_getstack(uthread_t thread, void **low, size_t *bytes);
/* The TLS mode the thread really has. */
int uthread_gettls(uthread_t thread, enum uthread_tls *mode);
/* The worker that runs the caller now, -1 in a plain pthread. Spares, and
 * workers that are one too many, have numbers from uthread_workers() on; nobody
 * can be bound to one. */
int uthread_worker(void);

/* ---- the runtime ------------------------------------------------------ */

/* Who makes ticks. */
enum uthread_tick {
	UTHREAD_TICK_DEFAULT = 0, /* worker, or UTHREAD_TICK */
	UTHREAD_TICK_WORKER = 1, /* a timer each */
	UTHREAD_TICK_PROCESS = 2, /* one timer, passed along the workers */
	UTHREAD_TICK_MONITOR = 3, /* a thread that looks who runs */
};

/* ---- policies: who in a worker's queue runs next ---- */

#define UTHREAD_PRIORITIES 32 /* 0 .. 31, larger first; default 0 */
#define UTHREAD_WEIGHT_MAX 1000000u /* 1 .. this; default 1024 */
#define UTHREAD_POLICY_DATA 64 /* bytes of a uthread that are the policy's */
#define UTHREAD_POLICY_QUEUE_MAX 65536

/* Why a uthread comes into a queue. */
enum uthread_ready {
	UTHREAD_READY_NEW = 0, /* just created */
	UTHREAD_READY_WOKEN = 1, /* what it waited for has come */
	UTHREAD_READY_YIELDED = 2,
	UTHREAD_READY_STOPPED = 3, /* its tick came */
	UTHREAD_READY_MOVED = 4, /* from another worker's queue */
};

/*
 * A policy orders the queue of one worker; each worker has one, zeroed. put()
 * adds a uthread, take() removes the one to run next, NULL when it is empty.
 * `ran_ns`: CPU time since it was taken, 0 without `wants_time` (which costs
 * two clock readings a switch). Both are called under the
 * worker's lock and must not block, allocate, or call anything of this library
 * but uthread_policy_data(), uthread_getpriority() and uthread_getweight().
 * Whoever take() hands out was put() there before and not yet taken: anything
 * else ends the process.
 */
struct uthread_policy {
	size_t size; /* sizeof(struct uthread_policy), for growth */
	const char *name;
	int wants_time;
	size_t queue_size; /* bytes, at most UTHREAD_POLICY_QUEUE_MAX */
	int (*init)(void *queue); /* NULL: zeroed is ready */
	void (*put)(void *queue, uthread_t thread, enum uthread_ready why,
		    uint64_t ran_ns);
	uthread_t (*take)(void *queue);
	/* NULL: not needed. A mutex raised its priority, or no longer does,
	 * while it is in the queue. */
	void (*requeue)(void *queue, uthread_t thread);
};

/* "priority" or "fair"; NULL for any other name, and NULL is first in, first
 * out, the default. */
const struct uthread_policy *uthread_policy(const char *name);
/* UTHREAD_POLICY_DATA bytes, zero in a new uthread. */
void *uthread_policy_data(uthread_t thread);
/* EINVAL: out of range. What is in a queue keeps its place there; what waits
 * for a mutex that inherits lends the new one. */
int uthread_setpriority(uthread_t thread, int priority);
/* The one that counts now: an inherited one, if that is higher. */
int uthread_getpriority(uthread_t thread, int *priority);
int uthread_setweight(uthread_t thread, unsigned weight);
int uthread_getweight(uthread_t thread, unsigned *weight);

/* How a uthread is stopped. */
enum uthread_preempt {
	UTHREAD_PREEMPT_DEFAULT = 0, /* call where possible */
	UTHREAD_PREEMPT_CALL = 1, /* its registers saved in user space */
	UTHREAD_PREEMPT_FRAME = 2, /* in a signal frame on its stack */
};

/* What becomes of the thread that starts the runtime, if it is main. */
enum uthread_main {
	UTHREAD_MAIN_DEFAULT = 0, /* a uthread, where there are ticks and own
				   * TLS; or UTHREAD_MAIN */
	UTHREAD_MAIN_UTHREAD = 1, /* a uthread, without ticks too */
	UTHREAD_MAIN_PTHREAD = 2, /* it stays a plain pthread */
};

#define UTHREAD_TICK_MIN 100000u /* ns */
#define UTHREAD_TICK_MAX 1000000000u
#define UTHREAD_TICK_OFF UINT64_MAX /* as tick_ns: cooperative */

/* Who tells of descriptors. */
enum uthread_io {
	UTHREAD_IO_EPOLL = 1,
	UTHREAD_IO_URING = 2, /* where the kernel allows it; else the other, and
			       * one line says so */
};

struct uthread_config {
	size_t size; /* sizeof(struct uthread_config), for growth */
	int workers; /* 0: default */
	int pin; /* 1: worker i only on cpus[i mod ncpus] */
	const int *cpus; /* NULL: the CPUs allowed to the process, in order */
	int ncpus;
	size_t stack_size; /* 0: default */
	enum uthread_tls tls;
	uint64_t tick_ns; /* 0: default; UTHREAD_TICK_MIN.._MAX or _OFF */
	enum uthread_tick tick_source;
	int tick_signal; /* 0: SIGURG, or another that is not handled. EBUSY: this
			  * one is */
	enum uthread_preempt preempt; /* ENOTSUP: not on this processor */
	int spares; /* 0: default; -1: none */
	const struct uthread_policy *policy; /* NULL: default. Not copied */
	enum uthread_main main;
	enum uthread_io io; /* 0: default */
};

/* Optional. Start the workers with this configuration (NULL: environment
 * and defaults; a zero field means the same). A struct of another version's
 * `size` will do: what an older one lacks is zero, and what a newer one has
 * more must be zero (E2BIG). The same holds for struct uthread_policy.
 * EBUSY once they run, or if the program handles the tick's signal. EINVAL: a
 * field makes no sense, or the signal cannot be handled. ENOTSUP: see
 * `preempt`. EAGAIN: no memory, or no thread or timer for the first worker. A
 * later call may succeed. If only some of the workers can be had, they must
 * do, and one line says so; and where the first uthread_create() starts them, it
 * does without ticks, and says so, if the kernel gives no timers. */
int uthread_init(const struct uthread_config *config);
/* How many workers run (starts them when none does), or -1: cannot start. */
int uthread_workers(void);
/* Have so many, 1 to 1024, from now on (starts them when none runs). New ones
 * are there when it returns. Those that are too many give away what they have
 * at their next switch or tick and rest; each gets up for uthreads that are
 * bound to it. From then on the number does not follow the CPUs of the process.
 * EINVAL: not such a number. EAGAIN: not so many can be had, as with fewer at
 * the start. */
int uthread_set_workers(int workers);
/* The kernel's thread id of worker w, 0 when there is no such worker. */
int uthread_worker_tid(int worker);

/*
 * Preemption. A uthread that computes is stopped when its tick comes and
 * somebody waits for its worker, wherever it is: in its own code, in a
 * library, in libc. Between disable and enable (they nest) it is not; a tick
 * that came meanwhile is taken by the last enable. Keep such stretches short.
 * EPERM outside a uthread, and for an enable without a disable.
 */
int uthread_preempt_disable(void);
int uthread_preempt_enable(void);

/* Why a tick was not taken at once. Each but DISABLED is taken or tried
 * again within 100 us. */
enum uthread_defer {
	UTHREAD_DEFER_RUNTIME =
		0, /* inside the runtime: taken on the way out */
	UTHREAD_DEFER_DISABLED = 1, /* uthread_preempt_disable() */
	UTHREAD_DEFER_LIBC = 2, /* inside libc or the dynamic loader */
	UTHREAD_DEFER_STACK = 3, /* on a stack that is not the uthread's */
	UTHREAD_DEFER_SIGNALS = 4, /* not any more: masks are uthreads' */
	UTHREAD_DEFER_ROOM = 5, /* too little stack left */
	UTHREAD_DEFER_TAKING = 6, /* another tick is just being taken */
	UTHREAD_DEFER_YOUNG = 7, /* it began since the last tick */
	UTHREAD_DEFER_REASONS = 8,
};

struct uthread_stats {
	uint64_t created; /* uthreads created so far */
	uint64_t live; /* not yet ended */
	uint64_t switches; /* exchanges of one uthread for another or for idle */
	uint64_t yields; /* calls of uthread_yield */
	uint64_t parks; /* times a uthread waited for something */
	uint64_t steals; /* uthreads taken from another worker */
	uint64_t idles; /* times a worker went to sleep */
	uint64_t stacks; /* stacks that exist, in use or pooled */
	uint64_t stack_reuses; /* creates served from a pool */
	uint64_t tls_blocks; /* TLS blocks that exist */
	uint32_t workers;
	uint32_t own_tls; /* 1: own TLS works here */
	uint32_t guard; /* 1: MADV_GUARD_INSTALL, 2: mprotect */
	uint32_t reserved;
	uint64_t ticks; /* signals that came */
	uint64_t preempted; /* of these: stopped a uthread */
	uint64_t deferred[UTHREAD_DEFER_REASONS]; /* of these: had to wait */
	uint64_t donated; /* times a waiter gave its turn to a lock's holder */
	uint64_t blocked; /* times a worker slept in the kernel while others waited */
	uint32_t spares; /* workers made for that so far */
	uint32_t spares_used; /* of these: at work now */
	int64_t blocked_call; /* the last one's system call, -1: unknown */
	char blocked_name[UTHREAD_NAME_MAX]; /* and uthread */
	uint64_t tick_ns; /* 0: no preemption */
	uint32_t tick_source; /* enum uthread_tick */
	uint32_t preempt; /* enum uthread_preempt */
	uint32_t blocked_id; /* the last one's uthread, 0: none */
	uint32_t spares_limit; /* spares there may be at a time */
	uint32_t spares_most; /* spares at work at a time, so far */
	uint64_t blocked_refused; /* times no spare was left for a worker */
	uint32_t io; /* enum uthread_io, 0: nobody has waited for a descriptor */
	uint32_t reserved2;
	/* Of calls of uthread/io.h by uthreads: those that did not wait, and those
	 * that do or did, for a descriptor, the kernel or a helper. */
	uint64_t io_at_once;
	uint64_t io_waits;
	uint64_t io_retries; /* times one was told of something, and it was gone */
	uint64_t io_expired; /* calls that their deadline ended, */
	uint64_t io_cancelled; /* that their uthread's cancellation did, */
	uint64_t io_closed; /* that waited for a descriptor somebody closed */
	uint64_t io_polls; /* times a worker asked epoll or the ring for events, */
	uint64_t io_events; /* and got so many, without wake-ups of its own */
	uint64_t io_enters; /* calls of io_uring_enter() by workers, */
	uint64_t io_requests; /* and requests that these gave to the kernel */
	uint64_t io_jobs; /* calls that uthreads gave to helper threads */
	uint32_t helpers; /* that there are */
	uint32_t helpers_most; /* that there were at a time */
};

/* A system call in which workers slept while others waited for them. */
struct uthread_blocked {
	int64_t call; /* its number, -1: unknown */
	uint64_t count; /* times a spare stood in */
	uint64_t ns; /* for so long, together */
	uint64_t refused; /* times no spare was left */
	char name[32]; /* "futex()", "system call 999" */
};

/* size: sizeof(struct uthread_stats) of the caller. Approximate while
 * threads run. */
int uthread_stats(struct uthread_stats *stats, size_t size);
/*
 * Up to n of them, each `size` bytes (sizeof(struct uthread_blocked) of the
 * caller), the most frequent first; at most 32. Returns how many there are.
 * list may be NULL if n is 0.
 */
int uthread_blocked_calls(struct uthread_blocked *list, size_t size, int n);
/*
 * For debugging: a line for each worker and each uthread on that descriptor:
 * what it does, what it waits for, where. From anywhere, a signal handler too;
 * it takes no lock and only writes. Lines may disagree while uthreads run; the
 * first 4096 uthreads are shown. errno is left alone.
 */
void uthread_dump(int fd);
/* Why own TLS is off, or "" when it is on. Static storage. */
const char *uthread_tls_reason(void);

/* ---- mutex ------------------------------------------------------------ */

enum {
	UTHREAD_MUTEX_NORMAL = 0,
	UTHREAD_MUTEX_RECURSIVE = 1,
	UTHREAD_MUTEX_ERRORCHECK = 2,
};

/* Priority inheritance: while a uthread of higher priority waits for the
 * mutex, its holder has that priority (with the policy "priority"; passed on
 * along chains: to the holder of what the holder waits for, and so on), and
 * the highest waiter gets it next. */
enum {
	UTHREAD_PRIO_NONE = 0,
	UTHREAD_PRIO_INHERIT = 1,
};

typedef struct uthread_mutexattr {
	int _kind;
} uthread_mutexattr_t;

typedef struct uthread_mutex {
	uint32_t _state; /* 0 free, 1 held, 2 held and somebody may wait;
			  * others: see _owner */
	uint32_t _kind;
	uint32_t _lock;
	uint32_t _depth;
	void *_owner;
	void *_head;
	void *_tail;
	void *_reserved;
} uthread_mutex_t;

#define UTHREAD_MUTEX_INITIALIZER { 0, UTHREAD_MUTEX_NORMAL, 0, 0, 0, 0, 0, 0 }
#define UTHREAD_RECURSIVE_MUTEX_INITIALIZER \
	{ 0, UTHREAD_MUTEX_RECURSIVE, 0, 0, 0, 0, 0, 0 }
#define UTHREAD_ERRORCHECK_MUTEX_INITIALIZER \
	{ 0, UTHREAD_MUTEX_ERRORCHECK, 0, 0, 0, 0, 0, 0 }

int uthread_mutexattr_init(uthread_mutexattr_t *attr);
int uthread_mutexattr_destroy(uthread_mutexattr_t *attr);
int uthread_mutexattr_settype(uthread_mutexattr_t *attr, int kind);
int uthread_mutexattr_gettype(const uthread_mutexattr_t *attr, int *kind);
/* EINVAL: neither of the two. */
int uthread_mutexattr_setprotocol(uthread_mutexattr_t *attr, int protocol);
int uthread_mutexattr_getprotocol(const uthread_mutexattr_t *attr,
				  int *protocol);
int uthread_mutex_init(uthread_mutex_t *mutex, const uthread_mutexattr_t *attr);
/* EBUSY while it is held. */
int uthread_mutex_destroy(uthread_mutex_t *mutex);
/* EDEADLK (errorcheck): the caller holds it. */
int uthread_mutex_lock(uthread_mutex_t *mutex);
/* EBUSY: held. */
int uthread_mutex_trylock(uthread_mutex_t *mutex);
/* ETIMEDOUT at the deadline; EINVAL for a malformed one. */
int uthread_mutex_timedlock(uthread_mutex_t *mutex,
			    const struct timespec *deadline);
/* EPERM (recursive, errorcheck): the caller does not hold it. */
int uthread_mutex_unlock(uthread_mutex_t *mutex);

/* ---- spin lock ---- */

/* For a few dozen instructions: its holder is not preempted, and must not
 * block, yield or wait. Who waits spins. */
typedef struct uthread_spin {
	uint32_t _state;
	uint32_t _reserved;
	void *_owner;
} uthread_spin_t;

#define UTHREAD_SPIN_INITIALIZER { 0, 0, 0 }

int uthread_spin_init(uthread_spin_t *lock);
/* EBUSY: held. */
int uthread_spin_destroy(uthread_spin_t *lock);
/* EDEADLK: the caller holds it. */
int uthread_spin_lock(uthread_spin_t *lock);
/* EBUSY: held. */
int uthread_spin_trylock(uthread_spin_t *lock);
/* EPERM: the caller does not hold it. */
int uthread_spin_unlock(uthread_spin_t *lock);

/* ---- condition variable ------------------------------------------------ */

typedef struct uthread_cond {
	uint32_t _lock;
	uint32_t _realtime; /* the clock of timedwait */
	void *_head;
	void *_tail;
	void *_reserved;
} uthread_cond_t;

#define UTHREAD_COND_INITIALIZER { 0, 0, 0, 0, 0 }

/* attr may be NULL; uthread/sync.h has more. */
int uthread_cond_init(uthread_cond_t *cond,
		      const struct uthread_condattr *attr);
/* EBUSY while somebody waits. Right after a broadcast nobody does. */
int uthread_cond_destroy(uthread_cond_t *cond);
/* The caller holds the mutex; it holds it again on return. EPERM as
 * unlock. No spurious wake-ups, but test the condition all the same. */
int uthread_cond_wait(uthread_cond_t *cond, uthread_mutex_t *mutex);
int uthread_cond_timedwait(uthread_cond_t *cond, uthread_mutex_t *mutex,
			   const struct timespec *deadline);
int uthread_cond_signal(uthread_cond_t *cond);
int uthread_cond_broadcast(uthread_cond_t *cond);

/* ---- barrier ------------------------------------------------------------ */

#define UTHREAD_BARRIER_SERIAL_THREAD (-1)

typedef struct uthread_barrier {
	uint32_t _lock;
	uint32_t _count;
	uint32_t _arrived;
	uint32_t _round;
	void *_head;
	void *_tail;
	void *_reserved;
} uthread_barrier_t;

/* attr may be NULL. EINVAL: count is 0. */
int uthread_barrier_init(uthread_barrier_t *barrier,
			 const struct uthread_barrierattr *attr,
			 unsigned count);
/* EBUSY while somebody waits. */
int uthread_barrier_destroy(uthread_barrier_t *barrier);
/* UTHREAD_BARRIER_SERIAL_THREAD in one of the threads, 0 in the others. */
int uthread_barrier_wait(uthread_barrier_t *barrier);

/* ---- semaphore ----------------------------------------------------------- */

#define UTHREAD_SEM_VALUE_MAX 0x7fffffffu

typedef struct uthread_sem {
	uint32_t _lock;
	uint32_t _value;
	void *_head;
	void *_tail;
	void *_reserved;
} uthread_sem_t;

#define UTHREAD_SEM_INITIALIZER(value) { 0, (value), 0, 0, 0 }

/* EINVAL above UTHREAD_SEM_VALUE_MAX. */
int uthread_sem_init(uthread_sem_t *sem, unsigned value);
/* EBUSY while somebody waits. */
int uthread_sem_destroy(uthread_sem_t *sem);
int uthread_sem_wait(uthread_sem_t *sem);
/* EAGAIN: the value is 0. */
int uthread_sem_trywait(uthread_sem_t *sem);
int uthread_sem_timedwait(uthread_sem_t *sem, const struct timespec *deadline);
/* EOVERFLOW: the value is at its maximum. First come, first served. May be
 * called in a signal handler. */
int uthread_sem_post(uthread_sem_t *sem);
int uthread_sem_getvalue(uthread_sem_t *sem, int *value);

/* ---- once, keys ----------------------------------------------------------- */

typedef struct uthread_once {
	uint32_t _state;
	uint32_t _lock;
	void *_head;
	void *_tail;
} uthread_once_t;

#define UTHREAD_ONCE_INIT { 0, 0, 0, 0 }

/* If fn throws or ends its thread, the next call runs it. */
int uthread_once(uthread_once_t *once, void (*fn)(void));

#define UTHREAD_KEYS_MAX 256
#define UTHREAD_DESTRUCTOR_ITERATIONS 4

typedef uint32_t uthread_key_t;

/* EAGAIN: all UTHREAD_KEYS_MAX are in use. The destructor runs at the end
 * of each uthread whose value is not NULL. */
int uthread_key_create(uthread_key_t *key, void (*destructor)(void *));
/* EINVAL: no such key. Destructors are not run. */
int uthread_key_delete(uthread_key_t key);
/* In a plain pthread the value belongs to that pthread (no destructor).
 * EINVAL: no such key. ENOMEM: no memory, or no pthread key for that. */
int uthread_setspecific(uthread_key_t key, const void *value);
void *uthread_getspecific(uthread_key_t key);

#ifdef __cplusplus
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

#include "uthread/cancel.h"
#include "uthread/control.h"
#include "uthread/sync.h"
#include "uthread/io.h"
#include "uthread/channel.h"

#endif /* UTHREAD_H */
