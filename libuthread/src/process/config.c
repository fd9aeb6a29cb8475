/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - what the runtime shall be like: the caller's uthread_config
 * over the UTHREAD_* environment over the defaults. A value from the
 * environment that makes no sense is reported in one line and ignored; one
 * from the caller is EINVAL.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/san.h"
#include "base/sized.h"
#include "base/valgrind.h"
#include "process/process.h"
#include "stack/stack.h"

/* A whole number, with K, M or G behind it if `suffix`. */
static bool number(const char *s, bool suffix, unsigned long long *out)
{
	char *end;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*out = strtoull(s, &end, 10);
	if (errno)
		return false;
	if (suffix && *end) {
		int shift = toupper((unsigned char)*end) == 'K' ? 10 :
			    toupper((unsigned char)*end) == 'M' ? 20 :
			    toupper((unsigned char)*end) == 'G' ? 30 :
								  0;

		if (!shift || *out > (~0ull >> shift))
			return false;
		*out <<= shift;
		end++;
	}
	return !*end;
}

/* A time with its unit, in ns. */
static bool duration(const char *s, uint64_t *out)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "ns", 1 },
		      { "us", 1000 },
		      { "ms", 1000000 },
		      { "s", 1000000000 } };
	unsigned long long n;
	char *end;
	size_t i;

	if (!isdigit((unsigned char)*s))
		return false;
	n = strtoull(s, &end, 10);
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].name) && n <= UTHREAD_TICK_MAX) {
			*out = n * units[i].ns;
			return *out >= UTHREAD_TICK_MIN &&
			       *out <= UTHREAD_TICK_MAX;
		}
	return false;
}

static const char *const source_names[] = { "", "worker", "process",
					    "monitor" };

/* [SOURCE:]TIME or off. */
static bool tick(const char *s, struct config *c)
{
	const char *colon = strchr(s, ':');
	uint64_t ns;
	size_t i;

	if (!strcmp(s, "off")) {
		c->tick_ns = 0;
		return true;
	}
	if (!duration(colon ? colon + 1 : s, &ns))
		return false;
	if (!colon) {
		c->tick_ns = ns;
		return true;
	}
	for (i = 1; i < sizeof(source_names) / sizeof(source_names[0]); i++)
		if (!strncmp(s, source_names[i], (size_t)(colon - s)) &&
		    !source_names[i][colon - s]) {
			c->tick_ns = ns;
			c->tick_source = (enum uthread_tick)i;
			return true;
		}
	return false;
}

static void preemption_from_environment(struct config *c)
{
	unsigned long long n;
	const char *s;

	s = secure_getenv("UTHREAD_TICK");
	if (s && !tick(s, c))
		ut_warn("UTHREAD_TICK=%.80s: not off, nor worker:, process: or monitor: and a time from 100us to 1s; using worker:1ms",
			s);
	s = secure_getenv("UTHREAD_POLICY");
	if (s) {
		c->policy = uthread_policy(s);
		if (!c->policy && strcmp(s, "fifo"))
			ut_warn("UTHREAD_POLICY=%.80s: neither fifo nor priority nor fair; using fifo",
				s);
	}
	s = secure_getenv("UTHREAD_PREEMPT");
	if (s && !strcmp(s, "call"))
		c->mechanism = UTHREAD_PREEMPT_CALL;
	else if (s && !strcmp(s, "frame"))
		c->mechanism = UTHREAD_PREEMPT_FRAME;
	else if (s)
		ut_warn("UTHREAD_PREEMPT=%.80s: neither call nor frame; using the better one",
			s);
	s = secure_getenv("UTHREAD_SIGNAL");
	if (s) {
		if (number(s, false, &n) && n >= 1 && n <= (unsigned)SIGRTMAX)
			c->tick_signal = (int)n;
		else
			ut_warn("UTHREAD_SIGNAL=%.80s: not a signal's number; not used",
				s);
	}
	s = secure_getenv("UTHREAD_SPARES");
	if (s) {
		if (number(s, false, &n) && n <= SPARES_MAX)
			c->spares = (int)n;
		else
			ut_warn("UTHREAD_SPARES=%.80s: not a number from 0 to %d; using %d",
				s, SPARES_MAX, c->spares);
	}
}

static void io_from_environment(struct config *c)
{
	const char *s = secure_getenv("UTHREAD_IO");

	if (!s)
		return;
	if (!strcmp(s, "epoll"))
		c->io = UTHREAD_IO_EPOLL;
	else if (!strcmp(s, "uring"))
		c->io = UTHREAD_IO_URING;
	else
		ut_warn("UTHREAD_IO=%.80s: neither epoll nor uring; using the default",
			s);
}

static void from_environment(struct config *c)
{
	unsigned long long n;
	const char *s;

	preemption_from_environment(c);
	io_from_environment(c);
	s = secure_getenv("UTHREAD_WORKERS");
	if (s) {
		c->fixed = number(s, false, &n) && n >= 1 && n <= WORKERS_MAX;
		if (c->fixed)
			c->workers = (int)n;
		else
			ut_warn("UTHREAD_WORKERS=%.80s: not a number from 1 to %d; using %d",
				s, WORKERS_MAX, c->workers);
	}
	s = secure_getenv("UTHREAD_STACK_SIZE");
	if (s) {
		if (number(s, true, &n) && n >= UTHREAD_STACK_MIN &&
		    n <= UTHREAD_STACK_LIMIT)
			c->stack_slot = stack_slot_of((size_t)n);
		else
			ut_warn("UTHREAD_STACK_SIZE=%.80s: not a size from 16K to 1G; using 256K",
				s);
	}
	s = secure_getenv("UTHREAD_TLS");
	if (s) {
		if (!strcmp(s, "own"))
			c->tls = UTHREAD_TLS_OWN;
		else if (!strcmp(s, "shared"))
			c->tls = UTHREAD_TLS_SHARED;
		else
			ut_warn("UTHREAD_TLS=%.80s: neither own nor shared; using own where possible",
				s);
	}
	s = secure_getenv("UTHREAD_MAIN");
	if (s) {
		if (number(s, false, &n) && n <= 1)
			c->main = n ? UTHREAD_MAIN_UTHREAD :
				      UTHREAD_MAIN_PTHREAD;
		else
			ut_warn("UTHREAD_MAIN=%.80s: neither 0 nor 1; using 1 where it can be",
				s);
	}
	s = secure_getenv("UTHREAD_PIN");
	if (s) {
		if (number(s, false, &n) && n <= 1)
			c->pin = (int)n;
		else
			ut_warn("UTHREAD_PIN=%.80s: neither 0 nor 1; using 0",
				s);
	}
}

#define FIRST_SIZE offsetof(struct uthread_config, tick_ns)

/* One that is not to be had is said when a worker is to run there. */
static bool are_cpus(const int *cpus, int n)
{
	while (n > 0)
		if (cpus[--n] < 0)
			return false;
	return true;
}

static int from_caller(struct config *c, const struct uthread_config *user)
{
	struct uthread_config known;
	const struct uthread_config *u = &known;
	int err = sized_load(&known, sizeof(known), user, FIRST_SIZE);

	if (err)
		return err;
	if (u->workers < 0 || u->workers > WORKERS_MAX || u->ncpus < 0 ||
	    u->ncpus > CPUS_MAX || (u->ncpus && !u->cpus) || u->pin < 0 ||
	    u->pin > 1 || (unsigned)u->tls > UTHREAD_TLS_SHARED)
		return EINVAL;
	if (!are_cpus(u->cpus, u->ncpus))
		return EINVAL;
	if (u->stack_size && (u->stack_size < UTHREAD_STACK_MIN ||
			      u->stack_size > UTHREAD_STACK_LIMIT))
		return EINVAL;
	if ((u->tick_ns && u->tick_ns != UTHREAD_TICK_OFF &&
	     (u->tick_ns < UTHREAD_TICK_MIN ||
	      u->tick_ns > UTHREAD_TICK_MAX)) ||
	    (unsigned)u->tick_source > UTHREAD_TICK_MONITOR ||
	    (unsigned)u->preempt > UTHREAD_PREEMPT_FRAME ||
	    u->tick_signal < 0 || u->tick_signal > SIGRTMAX || u->spares < -1 ||
	    u->spares > SPARES_MAX ||
	    (unsigned)u->main > UTHREAD_MAIN_PTHREAD ||
	    (unsigned)u->io > UTHREAD_IO_URING)
		return EINVAL;
	if (u->tick_ns)
		c->tick_ns = u->tick_ns == UTHREAD_TICK_OFF ? 0 : u->tick_ns;
	if (u->tick_source)
		c->tick_source = u->tick_source;
	if (u->tick_signal)
		c->tick_signal = u->tick_signal;
	if (u->preempt)
		c->mechanism = u->preempt;
	if (u->policy)
		c->policy = u->policy;
	if (u->spares)
		c->spares = u->spares < 0 ? 0 : u->spares;
	if (u->ncpus) {
		int *cpus = calloc((size_t)u->ncpus, sizeof(*cpus));

		if (!cpus)
			return EAGAIN;
		memcpy(cpus, u->cpus, (size_t)u->ncpus * sizeof(*cpus));
		free(c->cpus);
		c->cpus = cpus;
		c->ncpus = u->ncpus;
	}
	if (u->workers) {
		c->workers = u->workers;
		c->fixed = true;
	}
	if (u->pin)
		c->pin = 1;
	if (u->stack_size)
		c->stack_slot = stack_slot_of(u->stack_size);
	if (u->tls)
		c->tls = u->tls;
	if (u->main)
		c->main = u->main;
	if (u->io)
		c->io = u->io;
	return 0;
}

int config_load(struct config *c, const struct uthread_config *user)
{
	int err = 0;

	memset(c, 0, sizeof(*c));
	c->cpus = cpus_allowed(&c->ncpus);
	if (!c->cpus)
		return EAGAIN;
	if (!c->ncpus)
		c->cpus[c->ncpus++] = 0; /* /proc-less or odd; one worker */
	c->workers = workers_for(c->ncpus);
	c->stack_slot = STACK_SLOT_DEFAULT;
	/* A sanitizer's code is full of locks and knows nothing of ticks.
	 * Valgrind takes a signal frame that is copied for somebody's mistake. */
	c->tick_ns = UTHREAD_SAN || valgrind_running() ? 0 : 1000000;
	c->tick_source = UTHREAD_TICK_WORKER;
	c->spares = SPARES_DEFAULT;
	from_environment(c);
	if (user)
		err = from_caller(c, user);
	/* It keeps signals for later, and later is too late. */
	if (UTHREAD_TSAN && c->tick_ns) {
		ut_warn("ThreadSanitizer keeps signals back: uthreads are not preempted");
		c->tick_ns = 0;
	}
	if (err)
		free(c->cpus);
	return err;
}
