/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - schedules, one after the other, and what is said of the one that fails.
 */
#include "sim.h"

#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prelude.h"
#undef malloc
#undef calloc
#undef free

#define WORKERS_SOME 4 /* of a search: two, three, four */
#define STEPS_MAX 400000

static const char *const orders[] = { "random", "pct", "round" };
static const char *const memories[] = { "sc", "tso", "weak" };
static const char *program;

/* ---- the last steps ---- */

#define NOTES 4096

static struct note {
	uint64_t step;
	const char *what;
	uintptr_t at, from;
	uint64_t value;
	int cpu;
	uint32_t ut;
} *notes;
static uint64_t nnotes;

void sim_note(const char *what, const volatile void *at, uint64_t value,
	      const void *from)
{
	struct note *n = &notes[nnotes++ % NOTES];
	const struct here *h = (const struct here *)sim.cpu->tp;

	n->step = sim.steps;
	n->what = what;
	n->at = (uintptr_t)at;
	n->value = value;
	n->from = (uintptr_t)from;
	n->cpu = (int)(sim.cpu - sim.cpus);
	n->ut = h->self ? h->self->id : 0;
}

extern char __executable_start;

/* addr2line has the lines; without it the offsets are there. */
static void print_notes(void)
{
	uint64_t i = nnotes > NOTES ? nnotes - NOTES : 0;
	char name[96], line[200], command[300];
	FILE *lines;

	if (!sim.opt.trace)
		return;
	for (; i < nnotes; i++) {
		const struct note *n = &notes[i % NOTES];

		fprintf(stderr, "%8llu  cpu %d  ut %u  %-10s %-28s %#llx",
			(unsigned long long)n->step, n->cpu, n->ut, n->what,
			lines_name(n->at, name, sizeof(name)),
			(unsigned long long)n->value);
		snprintf(command, sizeof(command),
			 "addr2line -s -p -f -i -e %s %#lx 2>/dev/null",
			 program,
			 (unsigned long)(n->from -
					 (uintptr_t)&__executable_start - 1));
		line[0] = 0;
		lines = nnotes - i < 400 && n->from ? popen(command, "r") :
						      NULL;
		if (lines) {
			while (fgets(line, sizeof(line), lines)) {
				line[strcspn(line, "\n")] = 0;
				fprintf(stderr, "  %s", line);
			}
			pclose(lines);
		}
		fprintf(stderr, "\n");
	}
}

/* ---- names of variables ---- */

#define SYMBOLS_MAX 8192

static struct symbol {
	unsigned long long at;
	char name[56];
} *symbols;
static int nsymbols;

/* By `nm`, where there is one: the runtime's own are static. */
static void load_symbols(void)
{
	char line[300], name[200];
	struct symbol *s;
	FILE *nm;

	if (nsymbols)
		return;
	snprintf(line, sizeof(line), "nm -n %s 2>/dev/null", program);
	nm = popen(line, "r");
	while (nm && nsymbols < SYMBOLS_MAX && fgets(line, sizeof(line), nm)) {
		s = &symbols[nsymbols];
		if (sscanf(line, "%llx %*c %199s", &s->at, name) != 2)
			continue;
		snprintf(s->name, sizeof(s->name), "%.55s", name);
		nsymbols++;
	}
	if (nm)
		pclose(nm);
}

void program_symbol(uintptr_t at, char *buf, size_t n)
{
	const unsigned long long off = at - (uintptr_t)&__executable_start;
	int i;

	load_symbols();
	for (i = nsymbols; i-- && symbols[i].at > off;)
		;
	if (i < 0 || off > symbols[nsymbols - 1].at + 65536)
		snprintf(buf, n, "%#lx", (unsigned long)at);
	else
		snprintf(buf, n, "%s +%llu", symbols[i].name,
			 off - symbols[i].at);
}

/* ---- a failure ---- */

static void say_failed(const char *what)
{
	fprintf(stderr,
		"uthread-sim: %s\n"
		"  %s, %d workers, seed %llu (%s, %s), step %llu; again, with its steps:\n"
		"  %s --scenario %s --workers %d --seed %llu --order %s --memory %s --trace\n",
		what, sim.opt.scenario, sim.ncpus - 1,
		(unsigned long long)sim.opt.seed, orders[sim.order],
		memories[sim.memory], (unsigned long long)sim.steps, program,
		sim.opt.scenario, sim.opt.workers,
		(unsigned long long)sim.opt.seed,
		sim.opt.order < 0 ? "any" : orders[sim.order],
		sim.opt.memory < 0 ? "any" : memories[sim.memory]);
	runtime_describe();
	print_notes();
	fflush(stderr);
}

void sim_fail(const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say_failed(text);
	_exit(sim.opt.expect_failure ? 0 : 1);
}

static void on_fault(int sig)
{
	signal(sig, SIG_DFL);
	sim_fail("signal %d", sig);
}

static void catch_faults(void)
{
	static char stack[65536];
	const stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_handler = on_fault,
				.sa_flags = SA_ONSTACK };

	sigaltstack(&alt, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGABRT, &sa, NULL);
	sigaction(SIGILL, &sa, NULL);
}

/* ---- one schedule ---- */

/* The variables of the runtime and of the simulator, as they are before the first. */
extern char __data_start, _end;
static char *kept;

static void keep_all(void)
{
	size_t bytes = (size_t)(&_end - &__data_start);

	kept = malloc(bytes);
	memcpy(kept, &__data_start, bytes);
}

static void restore_all(void)
{
	memcpy(&__data_start, kept, (size_t)(&_end - &__data_start));
}

static void outside(void *arg)
{
	const struct scenario *s = arg;

	s->run();
	sim.finished = true;
	memory_drain(sim.cpu);
	for (;;)
		cpu_sleep(NULL, NO_DEADLINE);
}

static void begin(const struct sim_options *opt)
{
	const struct scenario *s = scenario_find(opt->scenario);
	int workers, i;

	sim.opt = *opt;
	/* Near seeds make far schedules. */
	sim.rng = (opt->seed + 1) * 0x9e3779b97f4a7c15ull;
	for (i = 0; i < 8; i++)
		sim_random(1);
	workers = opt->workers;
	if (!workers)
		workers = s->workers > 2 ?
				  s->workers :
				  2 + (int)sim_random(WORKERS_SOME - 1);
	sim.order = opt->order < 0 ? (enum order)sim_random(3) :
				     (enum order)opt->order;
	if (opt->memory < 0) /* the weakest finds most */
		sim.memory = sim_random(4) ? MEMORY_WEAK :
					     (enum memory)sim_random(2);
	else
		sim.memory = (enum memory)opt->memory;
	sim.odds = sim.order == ORDER_ROUND ? 1 + (uint32_t)sim_random(5) :
					      2u << sim_random(5);
	for (i = 0; i < 8; i++)
		sim.change[i] = sim_random(256ull << sim_random(7));
	sim.clock = 1000000;
	sim.ncpus = workers + 1;
	if (opt->lines)
		lines_setup();
	runtime_setup(workers, s->ticks);
	cpu_start(&sim.cpus[workers], outside, (void *)(uintptr_t)s, 64 << 10);
}

/* Steps. */
static uint64_t one(const struct sim_options *opt)
{
	begin(opt);
	cpu_run_all();
	memory_drain_all();
	runtime_check_end();
	return sim.steps;
}

/* ---- lines ---- */

#define LINES_LITTLE 0.02 /* and of an operation in fifty nobody speaks */

static double lines_at(const struct scenario *s, struct sim_options opt,
		       int workers)
{
	arena_reset();
	restore_all();
	opt.scenario = s->name;
	opt.workers = workers;
	opt.steps_max = UINT64_MAX;
	if (opt.order < 0)
		opt.order = ORDER_ROUND;
	opt.memory = MEMORY_SC;
	one(&opt);
	return lines_print(s->name, workers);
}

/* False: operations that have nothing to do with each other have lines that travel. */
static bool lines_table(const struct sim_options *opt, const char *only)
{
	static const int some[] = { 2, 16, 128, 256 };
	const struct scenario *s;
	bool right = true;
	double at, at_2;
	unsigned i;

	printf("operation    CPUs  transfers an operation, and of what\n");
	for (s = scenarios; s->name; s++) {
		if (!s->lines || (only && strcmp(only, s->name)))
			continue;
		at_2 = -1;
		for (i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
			if (opt->workers && opt->workers != some[i])
				continue;
			at = lines_at(s, *opt, some[i]);
			if (some[i] == 2)
				at_2 = at;
			if (s->most == LINES_NONE && at > LINES_LITTLE) {
				printf("%s: lines travel\n", s->name);
				right = false;
			}
			if (s->most > 0 && some[i] == 128 && at_2 >= 0 &&
			    at > at_2 * s->most + LINES_LITTLE) {
				printf("%s: more than at 2 CPUs\n", s->name);
				right = false;
			}
		}
	}
	return right;
}

/* ---- the command line ---- */

static int choice(const char *what, const char *const *names, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (!strcmp(what, names[i]))
			return i;
	if (!strcmp(what, "any"))
		return -1;
	fprintf(stderr, "uthread-sim: '%s' is none of:", what);
	for (i = 0; i < n; i++)
		fprintf(stderr, " %s", names[i]);
	fprintf(stderr, " any\n");
	exit(2);
}

static void usage(void)
{
	const struct scenario *s;

	printf("usage: uthread-sim [--scenario NAME] [--schedules N [--from SEED] | --seed SEED [--trace]]\n"
	       "                   [--workers N] [--order random|pct|round|any]\n"
	       "                   [--memory sc|tso|weak|any] [--steps N] [--lines]\n"
	       "                   [--expect-failure]\n"
	       "scenarios:");
	for (s = scenarios; s->name; s++)
		printf(" %s", s->name);
	printf("\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "scenario", 1, NULL, 's' },
		{ "schedules", 1, NULL, 'n' },
		{ "seed", 1, NULL, 'r' },
		{ "workers", 1, NULL, 'w' },
		{ "order", 1, NULL, 'o' },
		{ "memory", 1, NULL, 'm' },
		{ "steps", 1, NULL, 'S' },
		{ "trace", 0, NULL, 't' },
		{ "from", 1, NULL, 'f' },
		{ "lines", 0, NULL, 'l' },
		{ "expect-failure", 0, NULL, 'x' },
		{ "help", 0, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct sim_options opt = { .order = -1,
				   .memory = -1,
				   .steps_max = STEPS_MAX };
	uint64_t schedules = 1000, i, first = 0, steps;
	bool one_seed = false;
	const struct scenario *s;
	const char *only = NULL;
	int c;

	program = argv[0];
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			only = optarg;
			break;
		case 'n':
			schedules = strtoull(optarg, NULL, 10);
			break;
		case 'f':
			first = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			first = strtoull(optarg, NULL, 10);
			one_seed = true;
			break;
		case 'w':
			opt.workers = atoi(optarg);
			break;
		case 'o':
			opt.order = choice(optarg, orders, 3);
			break;
		case 'm':
			opt.memory = choice(optarg, memories, 3);
			break;
		case 'S':
			opt.steps_max = strtoull(optarg, NULL, 10);
			break;
		case 't':
			opt.trace = true;
			break;
		case 'l':
			opt.lines = true;
			break;
		case 'x':
			opt.expect_failure = true;
			break;
		case 'h':
			usage();
			return 0;
		default:
			usage();
			return 2;
		}
	}
	if (opt.workers < 0 || opt.workers > SIM_CPUS - 1 ||
	    (only && !scenario_find(only))) {
		usage();
		return 2;
	}
	notes = calloc(NOTES, sizeof(notes[0]));
	symbols = calloc(SYMBOLS_MAX, sizeof(symbols[0]));
	if (!notes || !symbols)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	catch_faults();
	arena_setup();
	keep_all();
	if (opt.lines)
		return lines_table(&opt, only) == opt.expect_failure;
	if (one_seed)
		schedules = 1;
	for (s = scenarios; s->name; s++) {
		if (only ? strcmp(only, s->name) : s->lines)
			continue;
		if (opt.workers && opt.workers < s->workers) {
			printf("%-12s needs %d workers\n", s->name, s->workers);
			continue;
		}
		steps = 0;
		for (i = 0; i < schedules; i++) {
			arena_reset();
			restore_all();
			opt.scenario = s->name;
			opt.seed = first + i;
			steps += one(&opt);
		}
		printf("%-12s %llu schedules, %llu steps: nothing found\n",
		       s->name, (unsigned long long)schedules,
		       (unsigned long long)steps);
	}
	return opt.expect_failure;
}
